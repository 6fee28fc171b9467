// Which events a search or a filter is about: others are drawn faint.

import type { Events } from "../data/events";
import type { Shown } from "./context";
import { isPath } from "./flametree";
import type { State } from "./store";

export type Matches = (events: Events, at: number) => boolean;

// Null where everything is shown. A text is looked for in names, and in the ops and modules around a kernel; a path of the flame
// graph stands for its work, the events in `work`.
export function matches(
  { facts }: Pick<Shown, "facts">,
  { search, filter }: Pick<State, "search" | "filter">,
  work: ReadonlySet<number> | null = null,
): Matches | null {
  const texts = isPath(filter) ? [search] : [search, filter];
  const wanted = texts.map((text) => text.trim().toLowerCase()).filter((text) => text);
  const tests: Matches[] = wanted.map((text) => {
    const names = facts.namesWith(text);
    const kernels = new Set(facts.kernels.flatMap((row, at) => (mentions([...row.chain, ...row.ops, row.role], text) ? [at] : [])));
    return (events, at) => names.has(events.nameNumber[at]) || kernels.has(events.case[at]);
  });
  if (work) tests.push((events, at) => work.has(events.event[at]));
  return tests.length ? (events, at) => tests.every((test) => test(events, at)) : null;
}

function mentions(texts: readonly string[], wanted: string): boolean {
  return texts.some((text) => text.toLowerCase().includes(wanted));
}
