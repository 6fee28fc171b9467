// How long GPU work waited: from the start of its launch, as everywhere in foretrace, to its own.

import type { Events } from "../data/events";

export function queueDelay(events: Events, at: number): number | null {
  const launch = events.isGpuWork(at) ? events.find(events.launch[at]) : -1;
  return launch < 0 ? null : events.start[at] - events.start[launch];
}
