// Ranks of a job on one timeline, their clocks aligned: the timeline of a trace, with ranks for threads.

import "../panel/panel.css";
import type { Colours } from "../../base/colours";
import { listOf, make, nameOf, replace } from "../../base/dom";
import { numberText, timeText } from "../../base/units";
import { type Context, contextOf, type Shown } from "../../core/context";
import { beside } from "../../core/related";
import { ReportSource } from "../../core/reportsource";
import type { Columns } from "../../data/columns";
import type { TraceFacts as Entry, LanePage } from "../../data/documents";
import { Events, TraceFacts } from "../../data/events";
import type { Way } from "../../data/source";
import { followAddress } from "../page/tabs";
import { help, Searching, steps } from "../page/toolbar";
import { head } from "../panel/parts";
import { timeline } from "../time/timeline";

interface Ranks extends Shown {
  source: JobSource;
}

export function laneView(page: LanePage, columns: Columns, colours: Colours): { node: HTMLElement; context: Context } {
  const nothing = { kernels: [], decoded: [], shapes: [], origins: { of: {}, every: [] } };
  const facts = new TraceFacts({ title: "the chosen ranks", ...nothing, idle: null, launch_names: [], code_lines: {}, ...page });
  const source = new JobSource(facts, columns);
  const { timeline: outline } = page;
  const entry = { title: facts.title, timeline: outline } as Entry; // a timeline reads no more of it
  const ranks: Ranks = { index: 0, entry, facts, source, zero: outline.steps[outline.step ?? -1]?.start ?? 0 };
  const context = contextOf([ranks], colours);
  followAddress(context.store);
  const left = facts.leftOut ? ` ${numberText(facts.leftOut)} spans were left out to keep this page small.` : "";
  const there = new Set(source.events.kindNumber),
    kinds = facts.kinds.filter((_, at) => there.has(at));
  const node = make(
    "section",
    { "aria-label": "Timeline" },
    make("h3", {}, "Chosen ranks on one timeline"),
    make("p", { class: "faint" }, nameOf(page.note), left),
    listOf("ul", { class: "keys" }, kinds, (kind) => make("li", {}, make("span", { class: `key ${kind}` }), kind)),
    make("div", { class: "toolbar" }, new Searching(context).node, steps(context), help(context)),
    timeline(context),
    lanePanel(context, ranks),
  );
  document.addEventListener("keydown", (event) => {
    if (!event.defaultPrevented && context.keys.handle(event)) event.preventDefault(); // others have keys of their own
  });
  return { node, context };
}

function lanePanel({ store }: Context, { source, facts, zero }: Ranks): HTMLElement {
  const node = make("section", { class: "panel", "aria-label": "Selection", "aria-live": "polite", tabindex: "0" });
  store.follow(["selection"], ({ selection }) => {
    const { events } = source;
    const at = selection?.kind === "event" ? events.find(selection.event) : -1;
    if (selection?.kind === "range") return replace(node, make("p", {}, timeText(selection.range.to - selection.range.from)));
    if (at < 0) return replace(node, make("p", { class: "faint" }, "Nothing is selected. Click a span, or walk with the arrow keys."));
    const { label } = facts.lanes[events.lane[at]];
    const about = `${events.kind(at)}, ${timeText(events.length[at])}, starts at ${timeText(events.start[at] - zero)}, ${label}`;
    return replace(node, head(nameOf(events.label(at)), make("span", { class: "faint" }, about)), make("p", {}, nameOf(source.note(at))));
  });
  return node;
}

// The spans of ranks as the events of a trace. Nothing of a kernel is known here but its time: `launch` is the span of the rank that
// came last to a collective.

class JobSource extends ReportSource {
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
    let found = beside(this.events, at, way === "next" ? 1 : -1);
    if (at < 0) found = this.events.start.findIndex((start) => start >= time);
    else if (way === "up") found = this.events.find(this.events.launch[at]);
    else if (way === "down") found = this.waiting(at)[0] ?? -1;
    return found < 0 ? null : this.events.event[found];
  }

  private waiting(at: number): number[] {
    const { launch, event } = this.events;
    return [...launch.keys()].filter((each) => launch[each] === event[at]);
  }

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
