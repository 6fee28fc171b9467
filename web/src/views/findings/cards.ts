// What the traces are: name, card and steps in a line. Of several each has a line: what changed since the first one.

import "./cards.css";
import { make, nameOf, sentence } from "../../base/dom";
import type { Context, Shown } from "../../core/context";

export function headlines({ traces, compared }: Context): HTMLElement {
  const lines = traces.map((trace) => {
    const pair = compared?.pairs.find(({ a, b }) => a === 0 && b === trace.index);
    const found = pair?.document.verdict;
    return named(trace, found ? `${found.answer.toUpperCase()}: ${found.text}` : trace.entry.headline, !found);
  });
  return make("section", { class: "cards", "aria-label": "Summary" }, lines);
}

function named({ facts }: Shown, about: string, faint: boolean): HTMLElement {
  return make("h2", { title: about }, nameOf(facts.title), " · ", make("span", { class: faint ? "faint" : "verdict" }, sentence(about)));
}
