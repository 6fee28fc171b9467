// Where a fix, a finding, a kernel or an event is on the timeline, and the way there.

import type { Insight, Place } from "../data/documents";
import type { Range } from "../data/source";
import { type Context, type Shown, shared } from "./context";
import type { State } from "./store";

// A single kernel fills this share of the screen: what is around it says why it is there.
const FILLED = 0.7;
const LEAST_NS = 200;
const AROUND = 12; // lengths of a kernel that was chosen in a table

export function insightOf(trace: Shown | undefined, key: string): Insight | null {
  return trace?.entry.insights.find((each) => each.key === key) ?? null;
}

// What to show of it, in shared time and with some room on either side, as far as there are events; null where it has no time.
export function framed(trace: Shown, { frame }: Pick<Place, "frame">): Range | null {
  if (!frame) return null;
  const [from, to] = frame;
  const room = Math.max((to - from) * (1 / FILLED - 1), LEAST_NS) / 2;
  return shared(trace, { from: Math.max(from - room, Math.min(0, from)), to: Math.min(to + room, Math.max(trace.facts.end, to)) });
}

// What a click on a finding or a fix changes: it is selected, and the timeline goes there.
export function pointed(trace: Shown, { key, place }: Pick<Insight, "key" | "place">): Partial<State> {
  const view = framed(trace, place);
  return { selection: { kind: "finding", trace: trace.index, rule: key }, ...(view ? { view } : {}) };
}

// Where a row of a table leads: `event 12`, `kernel 3`, `search aten::mm`, `finding idle_gaps`.
export async function lead(context: Context, trace: Shown, to: string): Promise<void> {
  const [kind] = to.split(" ", 1),
    what = to.slice(kind.length + 1);
  if (kind === "kernel") return goToKernel(context, trace, Number(what));
  if (kind === "event") return goToEvent(context, trace, Number(what));
  const insight = insightOf(trace, what);
  if (insight) context.store.set(pointed(trace, insight));
  else if (kind === "search") context.store.set({ search: what });
}

export async function goToKernel({ store }: Context, trace: Shown, number: number): Promise<void> {
  const select = (event: number) => ({ selection: { kind: "event" as const, trace: trace.index, event } });
  const launches = await trace.source.launches(number).catch(() => null);
  if (!launches?.event.length) return store.set(select(trace.facts.kernels[number].first));
  const found = launches.start.findIndex((start) => start >= trace.zero),
    at = Math.max(found, 0);
  const start = launches.start[at],
    length = launches.length[at];
  const room = Math.max(length * AROUND, LEAST_NS) / 2;
  store.set({ ...select(launches.event[at]), view: shared(trace, { from: start - room, to: start + length + room }) });
}

async function goToEvent({ store }: Context, trace: Shown, event: number): Promise<void> {
  if (event < 0) return;
  const selection = { kind: "event", trace: trace.index, event } as const;
  store.set({ selection });
  const known = await trace.source.details(event),
    at = known.event.indexOf(event);
  const view = at < 0 ? null : framed(trace, { frame: [known.start[at], known.start[at] + known.length[at]] });
  if (view) store.set({ selection, view });
}
