// Where a compiled kernel comes from: the user's lines, what it moves, and the code that was generated for it.

import { type Child, make, nameOf } from "../base/dom";
import { numberText } from "../base/units";
import type { KernelOrigin } from "../data/documents";
import { titled } from "./panelparts";

export function codeParts(origin: KernelOrigin | undefined): Child[] {
  if (!origin) return [];
  const line = ([place, code]: [string, string]) => make("li", {}, nameOf(place), code ? [" ", make("code", {}, nameOf(code))] : null);
  const move = ([mode, tensor, bytes]: [string, string, string]) =>
    make("tr", {}, make("td", {}, mode), make("td", {}, nameOf(tensor)), make("td", {}, bytes));
  return [
    origin.lines.length ? titled("Source", make("ul", { class: "plain" }, origin.lines.map(line))) : null,
    origin.nodes.length ? titled("Graph nodes", make("p", {}, nameOf(origin.nodes.join(", ")))) : null,
    origin.moves.length ? titled("Loads and stores", make("table", {}, make("tbody", {}, origin.moves.map(move)))) : null,
    origin.code ? codePart(origin) : null,
  ];
}

function codePart({ language, code }: KernelOrigin): HTMLElement {
  const count = numberText(code.split("\n").length);
  return make(
    "details",
    { class: "wide code" },
    make("summary", {}, `Generated code (${language}, ${count} lines)`),
    make("pre", { tabindex: "0" }, nameOf(code)),
  );
}
