// Ranks of a job on one timeline, their clocks aligned: the panes and events of a trace, with ranks for threads.

import { make } from "./dom.js";
import { Events, TraceFacts } from "./events.js";
import { timeText } from "./units.js";
import { Pane } from "./viewpane.js";

// Nothing of a kernel is known here but its time.
class LaneEvents extends Events {
  constructor(facts, columns) {
    const none = new Float64Array(columns.event.length).fill(-1);
    super(facts, { parent: none, shape: none, config: none, case: none, ...columns });
  }

  group(at) { return this.kind(at); }
  isGpuWork(at) { return this.launch[at] >= 0; } // it has an arrow from the rank that came last
  chain() { return []; }
  launchedBy(at) {
    const found = [];
    for (let each = 0; each < this.count; each++) if (this.launch[each] === this.event[at]) found.push(each);
    return found;
  }

  // What the panel says about a collective.
  note(at) {
    const lane = (each) => this.facts.lanes[this.lane[each]].label;
    const last = this.find(this.launch[at]);
    if (last >= 0) return this.kind(at) === "wait" ? `Waits for ${lane(last)}, which came last.` : `${lane(last)} came last.`;
    const waited = this.launchedBy(at).filter((each) => this.kind(each) === "wait");
    if (!waited.length) return "";
    const longest = Math.max(...waited.map((each) => this.length[each]));
    return `Came last: ${waited.length} of the ranks shown wait for it, up to ${timeText(longest)}.`;
  }
}

export function lanePane(entry, columns, colours) {
  const more = { kernels: [], look: null, roofs: [], decoded: [], shapes: [], origins: { of: {}, every: [] } };
  const facts = new TraceFacts({ title: "the chosen ranks", ...more, ...entry }, []);
  const pane = new Pane(facts, colours);
  pane.setEvents(new LaneEvents(facts, columns));
  return pane;
}

export function laneLegend(pane) {
  const { facts, timeline } = pane, there = new Set(timeline.events.kindNumber);
  return make("ul", { class: "keys" }, facts.kinds.filter((_, at) => there.has(at)).map((kind) => make("li", {}, make("span", { class: `key ${kind}` }), kind)));
}
