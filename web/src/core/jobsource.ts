// The spans of ranks as the events of a trace. Nothing of a kernel is known here but its time: `launch` is the span of the rank that
// came last to a collective.

import { timeText } from "../base/units";
import type { Columns } from "../data/columns";
import type { LanePage } from "../data/documents";
import { Events, TraceFacts } from "../data/events";
import type { Way } from "../data/source";
import { ReportSource } from "./reportsource";
import { beside } from "./walk";

export function jobFacts(page: LanePage): TraceFacts {
  const nothing = { kernels: [], look: null, roofs: null, decoded: [], shapes: [], origins: { of: {}, every: [] } };
  return new TraceFacts({ title: "the chosen ranks", ...nothing, idle: null, launch_names: [], code_lines: {}, ...page }, []);
}

export class JobSource extends ReportSource {
  constructor(facts: TraceFacts, columns: Columns) {
    const none = new Float64Array(columns.event.length).fill(-1);
    super(new Events(facts, { parent: none, shape: none, config: none, case: none, ...columns }));
  }

  // A span, the one that came last, and those that it kept waiting.
  override async details(event: number): Promise<Columns> {
    const at = this.events.find(event);
    if (at < 0) return this.events.columnsAt([]);
    const last = this.events.find(this.events.launch[at]);
    return this.events.columnsAt([at, ...(last < 0 ? [] : [last]), ...this.waiting(at)].sort((a, b) => a - b));
  }

  override async neighbour(event: number | null, way: Way, time: number): Promise<number | null> {
    const at = event === null ? -1 : this.events.find(event);
    const found = at < 0 ? this.events.start.findIndex((start) => start >= time) : this.toward(at, way);
    return found < 0 ? null : this.events.event[found];
  }

  private toward(at: number, way: Way): number {
    if (way === "up") return this.events.find(this.events.launch[at]);
    if (way === "down") return this.waiting(at)[0] ?? -1;
    return beside(this.events, at, way === "next" ? 1 : -1);
  }

  private waiting(at: number): number[] {
    const { launch, event } = this.events;
    return [...launch.keys()].filter((each) => launch[each] === event[at]);
  }

  // What there is to say about a collective.
  note(at: number): string {
    const { events } = this;
    const lane = (each: number) => events.facts.lanes[events.lane[each]].label;
    const last = events.find(events.launch[at]);
    if (last >= 0) return events.kind(at) === "wait" ? `Waits for ${lane(last)}, which came last.` : `${lane(last)} came last.`;
    const waited = this.waiting(at).filter((each) => events.kind(each) === "wait");
    if (!waited.length) return "";
    const longest = Math.max(...waited.map((each) => events.length[each]));
    return `Came last: ${waited.length} of the ranks shown wait for it, up to ${timeText(longest)}.`;
  }
}
