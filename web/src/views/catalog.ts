// The traces of a folder: which of them are shown, one below the other.

import "./catalog.css";
import { button, make, nameOf } from "../base/dom";
import { numberText } from "../base/units";

export interface Listed {
  traces: { number: number; label: string; bytes: number }[];
  left_out: { label: string; why: string }[];
}

const MOST = 4; // as many as the server keeps open
const NONE = -1;

// The traces that an address names (`?traces=0,2`), each once; the first of the folder where it names none.
export function chosen(search: string, count: number): number[] {
  const text = new URLSearchParams(search).get("traces") ?? "";
  const numbers = text.split(",").filter((each) => /^\d{1,9}$/.test(each));
  const known = [...new Set(numbers.map(Number))].filter((number) => number < count).slice(0, MOST);
  return known.length ? known : [0];
}

// `open` is called with the numbers that a person chose.
export function catalog({ traces, left_out }: Listed, shown: readonly number[], open: (numbers: number[]) => void): HTMLElement {
  const choose = (value: number, at: number) => {
    const label = at ? "Compare with" : "Trace";
    const nothing = at ? make("option", { value: NONE }, "compare with …") : null;
    const options = traces.map(({ number, label }) => make("option", { value: number }, label));
    const select = make("select", { "aria-label": at > 1 ? `${label}, trace ${at + 1}` : label }, nothing, options);
    select.value = String(value);
    return select;
  };
  const places = Math.min(MOST, traces.length);
  const selects = [...shown, NONE].slice(0, places).map(choose);
  const numbers = () => [...new Set(selects.map((each) => Number(each.value)).filter((number) => number !== NONE))];
  const words = selects.map((select, at) => [at ? "and" : "", select]);
  const choice = make(
    "p",
    { class: "controls" },
    `${numberText(traces.length)} traces:`,
    words,
    button("open", () => open(numbers())),
  );
  return make("div", { class: "catalog" }, traces.length > 1 ? choice : null, leftOut(left_out));
}

// Files named like traces that cannot be read.
function leftOut(files: Listed["left_out"]): HTMLElement | null {
  if (!files.length) return null;
  const rows = files.map(({ label, why }) => make("li", {}, nameOf(label), ": ", nameOf(why)));
  return make(
    "details",
    {},
    make("summary", {}, `${numberText(files.length)} files named like traces cannot be read`),
    make("ul", {}, rows),
  );
}
