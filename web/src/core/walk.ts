// From one event to the next one beside, above or below it. All return a place in the columns, or -1.

import type { Events } from "../data/events";

// The next event of the same row.
export function beside(events: Events, at: number, step: number): number {
  const next = at + step;
  const within = next >= 0 && next < events.count;
  return within && events.lane[next] === events.lane[at] && events.row[next] === events.row[at] ? next : -1;
}

// The caller: the range around a host event, the launch of GPU work.
export function above(events: Events, at: number): number {
  return events.chain(at).at(-1) ?? -1;
}
