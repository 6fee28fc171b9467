// Where a finding is on the timeline, by the key that an address has.

import type { FindingEntry, Place } from "../data/documents";
import type { Range } from "../data/source";
import { type Shown, shared } from "./context";
import type { State } from "./store";

// A single kernel fills this share of the screen: what is around it says why it is there.
const FILLED = 0.7;
const LEAST_NS = 200;

export interface Placed {
  finding: FindingEntry;
  place: Place;
}

export function placed(trace: Shown | undefined, key: string): Placed | null {
  const at = trace?.entry.places.findIndex((place) => place.key === key) ?? -1;
  return trace && at >= 0 ? { finding: trace.entry.look.findings[at], place: trace.entry.places[at] } : null;
}

// What to show of it, in shared time and with some room on either side; null where it has no time.
export function framed(trace: Shown, { frame }: Pick<Place, "frame">): Range | null {
  if (!frame) return null;
  const [from, to] = frame;
  const room = Math.max((to - from) * (1 / FILLED - 1), LEAST_NS) / 2;
  return shared(trace, { from: from - room, to: to + room });
}

// What a click on a finding changes: it is selected, and the timeline goes there.
export function pointed(trace: Shown, place: Place): Partial<State> {
  const view = framed(trace, place);
  return { selection: { kind: "finding", trace: trace.index, rule: place.key }, ...(view ? { view } : {}) };
}
