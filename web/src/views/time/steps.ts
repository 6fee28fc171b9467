// The steps to go to, and the ways back: the selection, the whole recording.

import { button, make } from "../../base/dom";
import type { Context } from "../../core/context";
import { padded, whole } from "../../core/moving";
import type { StepExtent } from "../../data/documents";
import type { Range } from "../../data/source";

const HOME = "typical";
const ALL = "all";

const OTHER = "other";

export function steps(context: Context): HTMLElement {
  const { store, keys } = context;
  const choices = rangesOf(context);
  const menu = make(
    "select",
    { "aria-label": "Step" },
    choices.map(({ value, text }) => make("option", { value }, text)),
    make("option", { value: OTHER, hidden: "" }, "this range"),
  );
  const follow = () => {
    const { view } = store.state;
    menu.value = choices.find(({ range }) => same(range, view))?.value ?? OTHER;
  };
  menu.addEventListener("change", () => store.set({ view: choices.find(({ value }) => value === menu.value)?.range ?? null }));
  store.on(["view", "align"], follow);
  follow();
  const go = (by: number) => {
    const numbered = choices.filter(({ value }) => value !== HOME && value !== ALL);
    const at = numbered.findIndex(({ value }) => value === menu.value);
    const next = numbered[at < 0 ? (context.traces[0].facts.step ?? 0) + by : at + by];
    return next ? store.set({ view: next.range }) : false;
  };
  keys.add(".", "to the next step", () => go(1));
  keys.add(",", "to the previous step", () => go(-1));
  const fit = button("fit", () => keys.press("f"), { title: "Fit the selection (F)" });
  return make("span", { class: "steps" }, menu, fit);
}

interface Choice {
  value: string;
  text: string;
  range: Range | null;
}

function rangesOf({ traces }: Context): Choice[] {
  const [{ facts, zero }] = traces;
  const step = ({ name, start, last }: StepExtent, at: number) => ({
    value: String(at),
    text: name,
    range: padded({ from: start - zero, to: last - zero }, 0.01),
  });
  return [
    { value: HOME, text: facts.steps.length ? "typical step" : "all events", range: null },
    ...facts.steps.map(step),
    { value: ALL, text: "whole recording", range: padded(whole(traces), 0.01) },
  ];
}

// An address holds whole nanoseconds.
function same(a: Range | null, b: Range | null): boolean {
  return a === b || (a !== null && b !== null && Math.abs(a.from - b.from) < 1 && Math.abs(a.to - b.to) < 1);
}
