// What is selected: an event, a range or a finding, in a panel of fixed height, so that nothing below it moves.

import "./panel.css";
import { button, type Child, make, nameOf, replace } from "../base/dom";
import type { Context } from "../core/context";
import { eventPanel } from "./eventpanel";
import { findingPanel } from "./findingpanel";
import { rangePanel } from "./rangepanel";

export function panel(context: Context): HTMLElement {
  const { store } = context;
  const node = make("section", { class: "panel", "aria-label": "Selection", tabindex: "0" });
  let turn = 0;
  const show = async () => {
    turn += 1;
    const mine = turn;
    const parts = await partsOf(context).catch((problem) => [make("p", { class: "warning" }, nameOf(String(problem)))]);
    if (mine !== turn) return; // something else is selected by now
    replace(node, ...parts);
    node.scrollTop = 0;
  };
  let last = store.state.selection;
  const came = afterRelease(() => keepInView(node));
  store.on(["selection", "align"], ({ selection }) => {
    show();
    if (selection && selection !== last) came();
    last = selection;
  });
  show();
  return node;
}

async function partsOf(context: Context): Promise<Child[]> {
  const { selection } = context.store.state;
  if (selection?.kind === "event") return eventPanel(context, selection.trace, selection.event);
  if (selection?.kind === "finding") return findingPanel(context, selection.trace, selection.rule);
  if (selection?.kind === "range") return rangePanel(context, selection.range);
  return [
    make("p", { class: "faint" }, "Nothing is selected. Click an event or a finding, or hold Shift and drag to select a range."),
    make(
      "p",
      {},
      button("statistics of the visible range", () => context.keys.press("r")),
    ),
  ];
}

// Now, or when the mouse button comes up: nothing moves below a pointer that drags.
function afterRelease(act: () => void): () => void {
  let held = false;
  let waits = false;
  document.addEventListener("pointerdown", () => {
    held = true;
  });
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => {
      held = false;
      if (waits) act();
      waits = false;
    });
  }
  return () => {
    waits = held;
    if (!held) act();
  };
}

// A selection may come from a table far below: the timeline and this panel come back together.
function keepInView(node: HTMLElement): void {
  const { top, bottom } = node.getBoundingClientRect();
  if (top < window.innerHeight * 0.3 || bottom > window.innerHeight) node.scrollIntoView({ block: "end" });
}
