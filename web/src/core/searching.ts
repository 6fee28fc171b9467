// What a search found in all traces, in one order of time, and the way from one to the next.

import type { Events } from "../data/events";
import type { Found, Range } from "../data/source";
import { type Context, type Shown, shared } from "./context";
import { namesWork } from "./flame";
import type { Selection, State } from "./store";

// An event is drawn at least so wide (a share of the view); a narrower one is zoomed to.
const LEAST = 1 / 400;
const MOST = 0.8;

export interface Hit extends Range {
  trace: number;
  event: number;
  name: number;
}

export interface HitName {
  trace: Shown;
  name: number;
  count: number;
}

export class Hits {
  readonly count: number;
  readonly names: HitName[]; // the most frequent first
  readonly hits: Hit[]; // the first of each trace

  constructor(traces: readonly Shown[], found: readonly Found[]) {
    this.count = found.reduce((sum, { count }) => sum + count, 0);
    const names = traces.flatMap((trace, at) => Array.from(found[at].names, ([name, count]) => ({ trace, name, count })));
    this.names = names.sort((a, b) => b.count - a.count);
    this.hits = traces.flatMap((trace, at) => hitsOf(trace, found[at]));
    this.hits.sort((a, b) => a.from - b.from);
  }

  // The next one after the selected event, or the first; of one name when one is given.
  next(selection: Selection | null, step: number, only?: HitName): Hit | null {
    const hits = only ? this.hits.filter(({ trace, name }) => trace === only.trace.index && name === only.name) : this.hits;
    if (!hits.length) return null;
    const at = hits.findIndex((hit) => selection?.kind === "event" && hit.trace === selection.trace && hit.event === selection.event);
    return hits[at < 0 ? (step > 0 ? 0 : hits.length - 1) : (at + step + hits.length) % hits.length];
  }
}

function hitsOf(trace: Shown, { events }: Found): Hit[] {
  return Array.from(events.event, (event, at) => {
    const range = { from: events.start[at], to: events.start[at] + events.length[at] };
    return { ...shared(trace, range), trace: trace.index, event, name: events.name[at] };
  });
}

// The view that shows an event: the present one where it is in it and wide enough to be seen.
export function viewOf(present: Range, { from, to }: Range): Range {
  const span = present.to - present.from;
  const length = to - from;
  if (from >= present.from && to <= present.to && length >= span * LEAST) return present;
  const wanted = Math.max(Math.min(span, length / LEAST), length / MOST, 1);
  const middle = (from + to) / 2;
  return { from: middle - wanted / 2, to: middle + wanted / 2 };
}

export async function searchAll({ traces }: Context, text: string): Promise<Hits> {
  const found = await Promise.all(traces.map((trace) => trace.source.search(text)));
  return new Hits(traces, found);
}

// Which events a search or a filter is about: others are drawn faint.

export type Matches = (events: Events, at: number) => boolean;

// Null where everything is shown. A text is looked for in names, and in the ops and modules around a kernel; a path of the flame
// graph stands for its work, the events in `work`.
export function matches(
  { facts }: Pick<Shown, "facts">,
  { search, filter }: Pick<State, "search" | "filter">,
  work: ReadonlySet<number> | null = null,
): Matches | null {
  const texts = namesWork(filter) ? [search] : [search, filter];
  const wanted = texts.map((text) => text.trim().toLowerCase()).filter((text) => text);
  const tests: Matches[] = wanted.map((text) => {
    const names = facts.namesWith(text);
    const has = (each: string) => each.toLowerCase().includes(text),
      kernels = new Set(facts.kernels.flatMap(({ chain, ops, role }, at) => ([...chain, ...ops, role].some(has) ? [at] : [])));
    return (events, at) => names.has(events.nameNumber[at]) || kernels.has(events.case[at]);
  });
  if (work) tests.push((events, at) => work.has(events.event[at]));
  return tests.length ? (events, at) => tests.every((test) => test(events, at)) : null;
}
