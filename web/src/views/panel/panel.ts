// What is selected: an event, a range, a finding or a fix, in a panel that is there only then.

import "./panel.css";
import { button, type Child, make, nameOf, replace } from "../../base/dom";
import { numberText, timeText } from "../../base/units";
import { type Context, type Shown, shared } from "../../core/context";
import { framed, insightOf } from "../../core/places";
import type { Insight } from "../../data/documents";
import type { Range } from "../../data/source";
import { copyButton } from "../page/copying";
import { Dock } from "./dock";
import { eventPanel } from "./event";
import { head } from "./parts";
import { rangePanel } from "./range";

export function panel(context: Context): HTMLElement {
  const { store } = context;
  const inside = make("div", { class: "inside", tabindex: "0" });
  const dock = new Dock(inside, () => store.set({ selection: null }));
  let turn = 0;
  const show = async () => {
    turn += 1;
    const mine = turn;
    dock.show(store.state.selection !== null);
    const parts = await partsOf(context).catch((problem) => [make("p", { class: "warning" }, nameOf(String(problem)))]);
    if (mine !== turn) return; // something else is selected by now
    replace(inside, ...parts);
    inside.scrollTop = 0;
  };
  let last = store.state.selection;
  const came = afterRelease(() => {
    // a selection may come from a table far below: the timeline and this panel come back together
    const { top, bottom } = dock.node.getBoundingClientRect();
    if (top < window.innerHeight * 0.3 || bottom > window.innerHeight) dock.node.scrollIntoView({ block: "end" });
  });
  store.on(["selection", "align"], ({ selection }) => {
    show();
    if (selection && selection !== last) came();
    last = selection;
  });
  show();
  return dock.node;
}

async function partsOf(context: Context): Promise<Child[]> {
  const { selection } = context.store.state;
  if (selection?.kind === "event") return eventPanel(context, selection.trace, selection.event);
  if (selection?.kind === "finding") return findingPanel(context, selection.trace, selection.rule);
  if (selection?.kind === "range") return rangePanel(context, selection.range);
  return [];
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

// A finding: its text stays here while the timeline goes from one of its places to the next.

const ROOM = 2; // times the place itself, on either side
const LEAST_ROOM_NS = 5000;

function findingPanel(context: Context, number: number, key: string): Child[] {
  const trace = context.traces[number];
  const found = insightOf(trace, key);
  if (!trace || !found) return [make("p", { class: "faint" }, "This finding is not in the report.")];
  const { title, detail, todo, code, saves, about } = found;
  return [
    head(nameOf(title), saves ? make("strong", {}, saves) : null, make("span", { class: "faint" }, about)),
    make("p", { class: "text" }, nameOf(detail)),
    todo ? make("p", { class: "text" }, make("b", {}, "Fix: "), nameOf(todo)) : null,
    code ? make("p", { class: "text" }, make("code", {}, nameOf(code)), " ", copyButton(code)) : null,
    walk(context, trace, found),
  ];
}

// Buttons that lead the timeline along the places of a finding: its gaps, else its events.
function walk({ store }: Context, trace: Shown, { gaps: all, place }: Insight): HTMLElement | null {
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
    make("span", { class: "faint" }, gaps.length ? counted(gaps.length, all) : `${numberText(events.length)} listed`),
  );
}

function counted(shown: number, all: unknown): string {
  const some = typeof all === "number" && all > shown;
  return some ? `the ${numberText(shown)} longest of ${numberText(all)} gaps` : `${numberText(shown)} ${shown === 1 ? "gap" : "gaps"}`;
}
