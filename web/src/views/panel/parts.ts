// Parts that the panels share: titled sections that fill columns, pairs of terms and values, bars.

import { type Child, listOf, make, nameOf } from "../../base/dom";
import { type ColumnOf, tableOf } from "../../core/rows";
import { bar } from "../page/bars";
import { Grid } from "../page/grid";

export type Select = (event: number) => void;

export function head(title: Child, ...about: Child[]): HTMLElement {
  return make("header", {}, make("h3", {}, title), ...about);
}

export function columns(...sections: Child[]): HTMLElement {
  return make("div", { class: "columns" }, ...sections);
}

export function titled(title: string, ...children: Child[]): HTMLElement {
  return make("section", {}, make("h4", {}, title), ...children);
}

type Pair = [term: string, value: Child];

// Values that are empty have no row.
export function pairs(rows: readonly Pair[]): HTMLElement {
  const shown = rows.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return listOf("dl", {}, shown, ([term, value]) => [
    make("dt", {}, term),
    make("dd", {}, typeof value === "string" ? nameOf(value) : value),
  ]);
}

export function small(caption: string, titles: readonly string[], rows: readonly string[][]): HTMLElement {
  const columns = titles.map((title, at): ColumnOf<string[]> => [title, "words", (row) => row[at] ?? ""]);
  return new Grid(tableOf(caption, columns, rows), { plain: true }).node;
}

// A share of something, as a bar behind its words.
export function meter(share: number | null, colour: string, words: Child, figure: string): HTMLElement {
  return make(
    "li",
    { class: "meter" },
    bar([{ to: share ?? 0, colour }]),
    make("span", { class: "words" }, words),
    make("span", { class: "figure" }, figure),
  );
}

export function bars(...rows: Child[]): HTMLElement {
  return make("ul", { class: "meters" }, ...rows);
}
