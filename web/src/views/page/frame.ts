// The viewer: the three answers, the timeline with fixes and findings beside it, the panel of what is selected, and the tabs below. The same in a report and in
// `serve`.

import "./only.css";
import { type Child, listOf, make, nameOf, replace } from "../../base/dom";
import { numberText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { answers } from "../answers/answers";
import { changeList, changes } from "../changes/changes";
import { firstFixes, headlines, insights } from "../findings/insights";
import { flameTab } from "../flame/flametab";
import { memoryTab } from "../memory/memorytab";
import { panel } from "../panel/panel";
import { rooflineTab } from "../roofline/rooflinetab";
import { timeline } from "../time/timeline";
import { exporting } from "./exporting";
import { notes } from "./notes";
import { timeTables, traceTables } from "./tables";
import { followAddress, type TabPart, tabs } from "./tabs";
import { basis, help, Searching, steps } from "./toolbar";

// `more` are tabs of one page alone: guesses, ladder, ledger, SQL.
export function showViewer(root: HTMLElement, context: Context, more: readonly TabPart[] = []): void {
  const parts: TabPart[] = [
    { tab: "findings", title: "Findings", node: traceTables(context, ({ entry }) => entry.findings) },
    { tab: "kernels", title: "Kernels", node: timeTables(context) },
    { tab: "flame", title: "Flame graph", node: flameTab(context) },
    { tab: "roofline", title: "Roofline", node: rooflineTab(context) },
    { tab: "memory", title: "Memory", node: memoryTab(context) },
    { tab: "changes", title: "Changes", node: changes(context) },
    ...more,
  ];
  followAddress(context.store);
  replace(
    root,
    headlines(context),
    answers(context),
    firstFixes(context),
    make("div", { class: "toolbar" }, new Searching(context).node, basis(context), steps(context), exporting(context), help(context)),
    beside(timeline(context), changeList(context) ?? insights(context)),
    leftOut(context),
    panel(context),
    notes(context),
    tabs(context, parts),
  );
  watchKeys(context);
}

function watchKeys({ keys }: Context): void {
  document.addEventListener("keydown", (event) => {
    if (keys.handle(event)) event.preventDefault();
  });
}

// Findings, or of several traces the changes, stand beside the tracks where there is room.
export function beside(tracks: HTMLElement, list: HTMLElement | null): HTMLElement {
  return list ? make("div", { class: "beside" }, tracks, list) : tracks;
}

// One view alone, for a cell of a notebook: the same view as in a report, with what is selected below it.

export function showOnly(root: HTMLElement, context: Context, only: string): void {
  document.documentElement.dataset.only = only;
  const moving = only === "timeline" ? [new Searching(context).node, steps(context)] : null;
  const tools = make("div", { class: "toolbar" }, moving, exporting(context), help(context));
  replace(root, tools, view(context, only), leftOut(context), panel(context));
  watchKeys(context);
}

function view(context: Context, only: string): Child {
  if (only === "timeline") return beside(timeline(context), changeList(context));
  const node = only === "flame" ? flameTab(context) : rooflineTab(context);
  const lack = only === "flame" ? "the trace has no time to show" : "no kernel has known FLOPs and bytes, or the card's peaks are unknown";
  return node ?? make("p", {}, `Nothing to draw: ${lack}.`);
}

// What a page has no room for, said where it would be seen.

export function leftOut({ traces }: Context): HTMLElement | null {
  const line = ({ facts }: Shown) => {
    const whose = traces.length > 1 ? [nameOf(facts.title), ": "] : null,
      count = numberText(facts.leftOut),
      said = `${count} events are left out to keep this page small, GPU work last of all; foretrace serve shows every event.`;
    return make("p", { class: "faint" }, whose, said);
  };
  const some = traces.filter(({ facts }) => facts.leftOut);
  return some.length ? listOf("div", { class: "leftout" }, some, line) : null;
}

export function showBanner(node: HTMLElement, traces: readonly Shown[]): void {
  const lost = traces.flatMap(({ entry }) => entry.lost);
  node.hidden = !lost.length;
  const lines = listOf("ul", {}, lost, (text) => make("li", {}, nameOf(text)));
  replace(node, make("strong", {}, "Data was lost or is unreliable"), lines);
}
