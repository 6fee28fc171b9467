// What is selected: an event, a range or a finding, in a panel of fixed height, so that nothing below it moves.

import "./panel.css";
import { button, type Child, make, nameOf, replace } from "../../base/dom";
import { numberText, timeText } from "../../base/units";
import { type Context, type Shown, shared } from "../../core/context";
import { framed, type Placed, placed } from "../../core/places";
import { savingText } from "../../core/savings";
import type { Range } from "../../data/source";
import { eventPanel } from "./event";
import { head } from "./parts";
import { rangePanel } from "./range";

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

// A finding: its text stays here while the timeline goes from one of its places to the next.

const ROOM = 2; // times the place itself, on either side
const LEAST_ROOM_NS = 5000;

function findingPanel(context: Context, number: number, key: string): Child[] {
  const trace = context.traces[number];
  const found = placed(trace, key);
  if (!trace || !found) return [make("p", { class: "faint" }, "This finding is not in the report.")];
  const { finding } = found;
  return [
    head(
      nameOf(finding.title),
      finding.at_most_ns === null ? null : make("strong", {}, `saves ${savingText(finding)}${perStep(trace)}`),
      make("span", { class: "faint" }, finding.rule.replaceAll("_", " ")),
    ),
    make("p", { class: "text" }, nameOf(finding.detail)),
    finding.fix ? make("p", { class: "text" }, make("b", {}, "Fix: "), nameOf(finding.fix)) : null,
    walk(context, trace, found),
  ];
}

function perStep({ facts }: Shown): string {
  return facts.steps.length ? " per step" : "";
}

// Buttons that lead the timeline along the places of a finding: its gaps, else its events.
function walk({ store }: Context, trace: Shown, { finding, place }: Placed): HTMLElement | null {
  const gaps = place.shades.map(([from, to]): Range => ({ from, to })).sort((a, b) => a.from - b.from);
  const events = place.events.map(([, from, to]): Range => ({ from, to }));
  const stops = gaps.length ? gaps : events;
  const whole = framed(trace, place);
  if (!stops.length || !whole) return make("p", { class: "faint" }, "The trace has no time for it.");
  const word = gaps.length ? "gap" : "event";
  const said = make("span", { role: "status" });
  let at = -1;
  const go = (step: number) => {
    at = (at < 0 && step < 0 ? 0 : at + step + stops.length) % stops.length;
    const { from, to } = stops[at];
    const room = Math.max((to - from) * ROOM, LEAST_ROOM_NS);
    store.set({ view: shared(trace, { from: from - room, to: to + room }) });
    replace(said, `${word} ${numberText(at + 1)} of ${numberText(stops.length)}, ${timeText(to - from)}`);
  };
  return make(
    "p",
    { class: "walk" },
    button("‹", () => go(-1), { "aria-label": `Previous ${word}` }),
    button("›", () => go(1), { "aria-label": `Next ${word}` }),
    button("all of it", () => store.set({ view: whole })),
    said,
    make("span", { class: "faint" }, gaps.length ? counted(gaps.length, finding.evidence.gaps) : `${numberText(events.length)} listed`),
  );
}

function counted(shown: number, all: unknown): string {
  const some = typeof all === "number" && all > shown;
  return some ? `the ${numberText(shown)} longest of ${numberText(all)} gaps` : `${numberText(shown)} ${shown === 1 ? "gap" : "gaps"}`;
}
