// Sections as the terminal shows them: a head, paragraphs, bullets and tables.

import { make, nameOf } from "../base/dom";
import type { Column } from "../core/rows";
import type { Section } from "../data/documents";
import { Grid } from "./grid";

export function headNode(head: Section): HTMLElement {
  const line = ([label, text]: [string, string]) => [make("dt", {}, label), make("dd", {}, nameOf(text))];
  return make(
    "section",
    { "aria-label": "Summary" },
    make("h2", {}, nameOf(head.title)),
    make("dl", { class: "story" }, head.labelled.map(line)),
    head.bullets.map(([text]) => make("p", { class: "banner" }, nameOf(text))),
  );
}

export function sectionNode(section: Section): HTMLElement {
  return make(
    "section",
    {},
    section.title ? make("h3", {}, nameOf(section.title)) : null,
    section.paragraphs.map((text) => make("p", {}, nameOf(text))),
    section.bullets.length
      ? make(
          "ul",
          {},
          section.bullets.map(([line, text]) => make("li", {}, nameOf(line), text ? [make("br"), nameOf(text)] : null)),
        )
      : null,
    section.rows.length ? tableNode(section) : null,
    section.after ? make("p", { class: "faint" }, nameOf(section.after)) : null,
  );
}

function tableNode({ title, head, rows, left }: Section): HTMLElement {
  const columns = head.map((text, at): Column<string[]> => {
    const isFirst = at === Math.min(...left);
    return { title: text, kind: isFirst ? "name" : left.includes(at) ? "words" : "number", value: (row) => row[at] ?? "" };
  });
  return new Grid(columns, rows, { caption: title, wrap: true, ordered: true, bare: true }).node;
}
