// SQL over the tables of a trace, the tables as CSV, the report as a page, and the way to Perfetto.

import { button, make, nameOf, replace } from "../base/dom";
import { numberText } from "../base/units";
import type { Cell, Column } from "../core/rows";
import type { Server } from "../data/server";
import { Grid } from "./grid";
import { perfettoButton } from "./perfetto";

const TABLES = ["kernels", "ops", "events", "copies", "steps", "regions"];
const FIRST = "select short, role, count(*) as launches, sum(dur_ns) as ns from kernels group by short, role order by ns desc";

// A trace by its number on the server.
export interface ServedTrace {
  number: number;
  title: string;
}

interface Rows {
  columns: string[];
  rows: Cell[][];
  count: number;
}

export function sqlTab(server: Server, traces: readonly ServedTrace[]): HTMLElement {
  return make(
    "section",
    { class: "sql-tab" },
    traces.map((trace) => [make("h3", {}, nameOf(trace.title)), files(trace), queries(server, trace)]),
  );
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
      replace(result, rowsTable(found).node);
    } catch (problem) {
      if (!signal.aborted) replace(result, make("p", { class: "banner", role: "alert" }, nameOf((problem as Error).message)));
    }
  };
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  return make("div", {}, query, make("p", { class: "controls" }, button("run", run), "or Ctrl+Enter"), result);
}

function rowsTable(found: Rows): Grid<Cell[]> {
  const texts = found.columns.map((_, at) => found.rows.some((row) => typeof row[at] === "string"));
  const columns = found.columns.map((title, at): Column<Cell[]> => {
    const text = at === texts.indexOf(true) ? "name" : "words"; // the first one names its row
    return { title, kind: texts[at] ? text : "number", value: (row) => row[at] };
  });
  const shown = found.rows.length < found.count ? `, the first ${numberText(found.rows.length)} shown` : "";
  return new Grid(columns, found.rows, { caption: `${numberText(found.count)} rows${shown}` });
}
