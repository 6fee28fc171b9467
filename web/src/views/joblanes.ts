// Ranks of a job on one timeline, their clocks aligned: the timeline of a trace, with ranks for threads.

import "./panel.css";
import type { Colours } from "../base/colours";
import { byId, make, nameOf, replace } from "../base/dom";
import { numberText, timeText } from "../base/units";
import type { Context, Shown } from "../core/context";
import { JobSource, jobFacts } from "../core/jobsource";
import { KeyMap } from "../core/keys";
import { Store } from "../core/store";
import type { Columns } from "../data/columns";
import type { TraceFacts as Entry, LanePage } from "../data/documents";
import { followAddress } from "./addressing";
import { help } from "./help";
import { head } from "./panelparts";
import { searching } from "./searching";
import { steps } from "./time/steps";
import { timeline } from "./time/timeline";

interface Ranks extends Shown {
  source: JobSource;
}

// The section, and the context that tests reach it by.
export function laneView(page: LanePage, columns: Columns, colours: Colours): { node: HTMLElement; context: Context } {
  const facts = jobFacts(page);
  const source = new JobSource(facts, columns);
  const { timeline: outline } = page;
  const entry = { title: facts.title, timeline: outline } as Entry; // a timeline reads no more of it
  const ranks: Ranks = { index: 0, entry, facts, source, zero: outline.steps[outline.step ?? -1]?.start ?? 0 };
  const say = (text: string) => replace(byId("status"), text);
  const [keys, store] = [new KeyMap(), new Store()];
  const context: Context = { store, traces: [ranks], colours, keys, say, compared: null, joins: [], pictures: [] };
  followAddress(store);
  const left = facts.leftOut ? ` ${numberText(facts.leftOut)} spans were left out to keep this page small.` : "";
  const node = make(
    "section",
    { "aria-label": "Timeline" },
    make("h3", {}, "Chosen ranks on one timeline"),
    make("p", { class: "faint" }, nameOf(page.note), left),
    laneLegend(source),
    make("div", { class: "toolbar" }, searching(context), steps(context), help(context)),
    timeline(context),
    lanePanel(context, ranks),
  );
  document.addEventListener("keydown", (event) => {
    if (!event.defaultPrevented && keys.handle(event)) event.preventDefault(); // others have keys of their own
  });
  return { node, context };
}

function lanePanel({ store }: Context, { source, facts, zero }: Ranks): HTMLElement {
  const node = make("section", { class: "panel", "aria-label": "Selection", "aria-live": "polite", tabindex: "0" });
  const show = () => {
    const { selection } = store.state;
    const { events } = source;
    const at = selection?.kind === "event" ? events.find(selection.event) : -1;
    if (selection?.kind === "range") return replace(node, make("p", {}, timeText(selection.range.to - selection.range.from)));
    if (at < 0) return replace(node, make("p", { class: "faint" }, "Nothing is selected. Click a span, or walk with the arrow keys."));
    const { label } = facts.lanes[events.lane[at]];
    const about = `${events.kind(at)}, ${timeText(events.length[at])}, starts at ${timeText(events.start[at] - zero)}, ${label}`;
    return replace(node, head(nameOf(events.label(at)), make("span", { class: "faint" }, about)), make("p", {}, nameOf(source.note(at))));
  };
  store.on(["selection"], show);
  show();
  return node;
}

function laneLegend({ events }: JobSource): HTMLElement {
  const there = new Set(events.kindNumber);
  const kinds = events.facts.kinds.filter((_, at) => there.has(at));
  return make(
    "ul",
    { class: "keys" },
    kinds.map((kind) => make("li", {}, make("span", { class: `key ${kind}` }), kind)),
  );
}
