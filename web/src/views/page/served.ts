// The traces of a folder: which of them are shown, one below the other.

import "./served.css";
import { button, listOf, make, nameOf, replace } from "../../base/dom";
import { numberText } from "../../base/units";
import { type Cell, type ColumnOf, tableOf } from "../../core/rows";
import type { Server } from "../../data/server";
import { tableNode } from "./grid";
import { perfettoButton } from "./perfetto";

export interface Listed {
  traces: { number: number; label: string; bytes: number }[];
  snapshots: { number: number; label: string; bytes: number }[];
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

export function catalog({ traces, snapshots, left_out }: Listed, shown: readonly number[], open: (numbers: number[]) => void): HTMLElement {
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
  const go = button("open", () => open(numbers())),
    choice = make("p", { class: "controls" }, `${numberText(traces.length)} traces:`, words, go);
  return make("div", { class: "catalog" }, traces.length > 1 ? choice : null, memoryPages(snapshots), leftOut(left_out));
}

function memoryPages(snapshots: Listed["snapshots"]): HTMLElement | null {
  if (!snapshots.length) return null;
  const links = snapshots.map(({ number, label }) => make("li", {}, make("a", { href: `snapshot/${number}/` }, nameOf(label))));
  return make("div", {}, make("p", {}, "Memory snapshots:"), make("ul", {}, links));
}

function leftOut(files: Listed["left_out"]): HTMLElement | null {
  if (!files.length) return null;
  const rows = files.map(({ label, why }) => make("li", {}, nameOf(label), ": ", nameOf(why)));
  const summary = make("summary", {}, `${numberText(files.length)} files named like traces cannot be read`);
  return make("details", {}, summary, make("ul", {}, rows));
}

// SQL over the tables of a trace, the tables as CSV, the report as a page, and the way to Perfetto.

const TABLES = ["kernels", "ops", "events", "copies", "steps", "regions"];
const FIRST = "select short, role, count(*) as launches, sum(dur_ns) as ns from kernels group by short, role order by ns desc";

type ServedTrace = { number: number; title: string };

type Rows = { columns: string[]; rows: Cell[][]; count: number };

export function sqlTab(server: Server, traces: readonly ServedTrace[]): HTMLElement {
  return listOf("section", { class: "sql-tab" }, traces, (trace) => [
    make("h3", {}, nameOf(trace.title)),
    files(trace),
    queries(server, trace),
  ]);
}

function files({ number, title }: ServedTrace): HTMLElement {
  const link = (text: string, path: string) => make("a", { href: `trace/${number}/${path}`, target: "_blank", rel: "noopener" }, text);
  const file = () => fetch(`trace/${number}/file`).then((answer) => answer.arrayBuffer());
  const tables = TABLES.map((name) => [link(name, `table/${name}.csv`), " "]);
  return make("p", { class: "controls" }, "Tables as CSV:", tables, link("report", "report"), perfettoButton(title, file));
}

function queries(server: Server, { number, title }: ServedTrace): HTMLElement {
  const query = make("textarea", { "aria-label": `SQL over ${title}`, spellcheck: "false" });
  query.value = FIRST;
  const result = make("div", { class: "sql" });
  let running = new AbortController();
  const run = async () => {
    running.abort(); // the server ends a query that nobody waits for
    running = new AbortController();
    const { signal } = running;
    try {
      replace(result, make("p", { class: "faint", role: "status" }, "running …"));
      const found = await server.ask<Rows>(`trace/${number}/sql?q=${encodeURIComponent(query.value)}`, { signal });
      replace(result, rowsTable(found));
    } catch (problem) {
      if (!signal.aborted) replace(result, make("p", { class: "banner", role: "alert" }, nameOf((problem as Error).message)));
    }
  };
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  return make("div", {}, query, make("p", { class: "controls" }, button("run", run), "or Ctrl+Enter"), result);
}

function rowsTable({ columns, rows, count }: Rows): HTMLElement {
  const unit = (at: number) => (rows.some((row) => typeof row[at] === "string") ? "words" : "number");
  const all = columns.map((title, at): ColumnOf<Cell[]> => [title, unit(at), (row) => row[at]]);
  const shown = rows.length < count ? `, the first ${numberText(rows.length)} shown` : "";
  return tableNode(tableOf(`${numberText(count)} rows${shown}`, all, rows));
}
