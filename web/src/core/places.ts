// Where a finding or a fix is on the timeline, by the key that an address has, and what is said of it.

import { timeText } from "../base/units";
import type { Finding, FixCard, Place } from "../data/documents";
import type { Range } from "../data/source";
import { type Shown, shared } from "./context";
import { savingText } from "./savings";
import type { State } from "./store";

// A single kernel fills this share of the screen: what is around it says why it is there.
const FILLED = 0.7;
const LEAST_NS = 200;

export interface Placed {
  title: string;
  detail: string;
  todo: string; // of a finding: its fix
  code: string; // to be copied
  saves: string;
  about: string;
  gaps: unknown; // how many there are, where not all are listed
  place: Place;
}

export function placeOf(trace: Shown | undefined, key: string): Place | null {
  return [...(trace?.entry.places ?? []), ...(trace?.entry.fix_places ?? [])].find((place) => place.key === key) ?? null;
}

export function placed(trace: Shown | undefined, key: string): Placed | null {
  const place = placeOf(trace, key);
  if (!trace || !place) return null;
  const card = trace.entry.answers.cards.find((each) => each.key === key);
  if (card) return { ...ofCard(trace, card), place };
  return { ...ofFinding(trace, trace.entry.look.findings[trace.entry.places.indexOf(place)]), place };
}

function ofCard(trace: Shown, card: FixCard): Omit<Placed, "place"> {
  const { order, why, code, needs, risk } = card;
  const detail = [why, needs && `Without ${needs}.`, risk && `Check: ${risk}.`].filter(Boolean).join(". ").replaceAll("..", ".");
  return { title: order, detail, todo: "", code, saves: cardText(trace, card), about: "fix", gaps: null };
}

function ofFinding(trace: Shown, finding: Finding): Omit<Placed, "place"> {
  const { title, detail, fix, rule, evidence } = finding;
  const saving = savingText(finding);
  const saves = saving && `saves ${saving}${trace.facts.steps.length ? " per step" : ""}`;
  return { title, detail, todo: fix, code: "", saves, about: rule.replaceAll("_", " "), gaps: evidence.gaps };
}

// The step before and after a fix, or what it saves at most.
export function cardText({ entry }: Shown, { ns, low_ns, high_ns, at_most_ns }: FixCard): string {
  const { step } = entry.look;
  if (step && ns !== null) return `${timeText(step.ns)} → about ${timeText(ns)} (${timeText(low_ns)} to ${timeText(high_ns)})`;
  return at_most_ns === null ? "" : `saves at most ${timeText(at_most_ns)}`;
}

// What to show of it, in shared time and with some room on either side, as far as there are events; null where it has no time.
export function framed(trace: Shown, { frame }: Pick<Place, "frame">): Range | null {
  if (!frame) return null;
  const [from, to] = frame;
  const room = Math.max((to - from) * (1 / FILLED - 1), LEAST_NS) / 2;
  return shared(trace, { from: Math.max(from - room, Math.min(0, from)), to: Math.min(to + room, Math.max(trace.facts.end, to)) });
}

// What a click on a finding or a fix changes: it is selected, and the timeline goes there.
export function pointed(trace: Shown, place: Place): Partial<State> {
  const view = framed(trace, place);
  return { selection: { kind: "finding", trace: trace.index, rule: place.key }, ...(view ? { view } : {}) };
}
