// What the traces are: name, card and steps in a line. Of several each has a line: what changed since the first one.

import "./cards.css";
import { make, nameOf, sentence } from "../../base/dom";
import type { Context } from "../../core/context";

export function headlines({ traces, compared }: Context): HTMLElement {
  const lines = traces.map(({ index, entry, facts }) => {
    const verdict = compared?.pairs.find(({ a, b }) => a === 0 && b === index)?.verdict,
      about = verdict ?? entry.headline;
    return make(
      "h2",
      { title: about },
      nameOf(facts.title),
      " · ",
      make("span", { class: verdict ? "verdict" : "faint" }, sentence(about)),
    );
  });
  return make("section", { class: "cards", "aria-label": "Summary" }, lines);
}
