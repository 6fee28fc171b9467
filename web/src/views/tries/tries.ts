// What `foretrace try` measured: a bar for each fix with its interval, and the untouched script as a line through all of them.

import { make, nameOf } from "../../base/dom";
import { timeText } from "../../base/units";
import type { TriedBar, TryPage } from "../../data/documents";
import { spanBar } from "../page/bars";
import { sectionNode } from "../page/written";
import "./tries.css";

export function triesNode({ head, untouched, bars, table, sections, diff }: TryPage): HTMLElement {
  const longest = Math.max(...[untouched, ...bars].map((bar) => bar.high_ns));
  const trackNode = ({ state, low_ns, median_ns, high_ns }: TriedBar) =>
    spanBar({ low: low_ns, at: median_ns, high: high_ns, longest, base: untouched.median_ns, kind: state });
  const row = (bar: TriedBar, cells: readonly string[]) => rowNode(cells, bar.state, trackNode(bar));
  const now = timeText(untouched.median_ns);
  const key = `Time per step; the thin line is the interval of the median. Dashed: the untouched script, ${now}.`;
  const rows = bars.map((bar, at) => row(bar, table.rows[at]));
  return make(
    "section",
    { class: "tries", "aria-label": "Fixes that were tried" },
    make("h2", {}, "Fixes that were tried"),
    sectionNode(head),
    bars.length ? [make("ol", { class: "tried" }, row(untouched, ["untouched", "", now]), rows), make("p", { class: "faint" }, key)] : null,
    sections.map((each) => sectionNode(each)),
    diff.length ? make("pre", { class: "scroll", tabindex: 0, "aria-label": "The patch" }, diff.join("\n")) : null,
  );
}

// A row of the terminal's table; its last cell is what to write, or the state of the fix and why.
function rowNode(cells: readonly string[], state: string, track: HTMLElement): HTMLElement {
  const [title, predicted, measured, results, memory, write] = cells;
  const known = Object.entries({ predicted, results, memory }).filter(([, text]) => text && text !== "–");
  return make(
    "li",
    {},
    make("div", { class: "fix" }, nameOf(title)),
    track,
    make(
      "div",
      { class: "told" },
      make(
        "div",
        { class: "facts" },
        make("strong", {}, measured),
        known.map(([label, text]) => make("span", {}, `${label} ${text}`)),
      ),
      write ? make("div", {}, state === "kept" ? ["kept; write ", make("code", {}, nameOf(write))] : nameOf(write)) : null,
    ),
  );
}
