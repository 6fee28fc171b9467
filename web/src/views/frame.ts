// The viewer: verdict and cards, the timeline, the panel of what is selected, and the tabs below. The same in a report and in
// `serve`.

import { make, replace } from "../base/dom";
import type { Context } from "../core/context";
import { followAddress } from "./addressing";
import { cards } from "./cards";
import { changeList } from "./changelist";
import { changes } from "./changes";
import { exporting } from "./exporting";
import { findings } from "./findings";
import { flameTab } from "./flametab";
import { help } from "./help";
import { kernelTab } from "./kerneltab";
import { leftOut } from "./leftout";
import { memoryTab } from "./memorytab";
import { panel } from "./panel";
import { rooflineTab } from "./rooflinetab";
import { searching } from "./searching";
import { type TabPart, tabs } from "./tabs";
import { steps } from "./time/steps";
import { timeline } from "./time/timeline";

// `more` are tabs of one page alone: guesses, ladder, ledger, SQL.
export function showViewer(root: HTMLElement, context: Context, more: readonly TabPart[] = []): void {
  const parts: TabPart[] = [
    { tab: "findings", title: "Findings", node: findings(context) },
    { tab: "kernels", title: "Kernels", node: kernelTab(context) },
    { tab: "flame", title: "Flame graph", node: flameTab(context) },
    { tab: "roofline", title: "Roofline", node: rooflineTab(context) },
    { tab: "memory", title: "Memory", node: memoryTab(context) },
    { tab: "changes", title: "Changes", node: changes(context) },
    ...more,
  ];
  followAddress(context.store);
  replace(
    root,
    cards(context),
    make("div", { class: "toolbar" }, searching(context), steps(context), exporting(context), help(context)),
    beside(timeline(context), changeList(context)),
    leftOut(context),
    panel(context),
    tabs(context, parts),
  );
  watchKeys(context);
}

export function watchKeys({ keys }: Context): void {
  document.addEventListener("keydown", (event) => {
    if (keys.handle(event)) event.preventDefault();
  });
}

// The list of changes stands beside the tracks where there is room.
export function beside(tracks: HTMLElement, list: HTMLElement | null): HTMLElement {
  return list ? make("div", { class: "beside" }, tracks, list) : tracks;
}
