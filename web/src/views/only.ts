// One view alone, for a cell of a notebook: the same view as in a report, with what is selected below it.

import "./only.css";
import { type Child, make, replace } from "../base/dom";
import type { Context } from "../core/context";
import { changeList } from "./changelist";
import { exporting } from "./exporting";
import { flameTab } from "./flametab";
import { beside, watchKeys } from "./frame";
import { help } from "./help";
import { leftOut } from "./leftout";
import { panel } from "./panel";
import { rooflineTab } from "./rooflinetab";
import { searching } from "./searching";
import { steps } from "./time/steps";
import { timeline } from "./time/timeline";

export function showOnly(root: HTMLElement, context: Context, only: string): void {
  document.documentElement.dataset.only = only;
  const moving = only === "timeline" ? [searching(context), steps(context)] : null;
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
