// Tables one below the other, and those of a tab: what the terminal prints. A row of a kernel, an op, a finding or an event leads there.

import "./tables.css";
import { type Child, listOf, make, nameOf, replace, sentence } from "../../base/dom";
import type { Context, Shown } from "../../core/context";
import { chosenCases } from "../../core/flame";
import { lead } from "../../core/places";
import type { TableData } from "../../data/documents";
import { Grid, linesNode, tableNode, tableParts } from "./grid";

export function headNode({ title, lines = [] }: TableData): HTMLElement {
  const warned = lines.filter(([label]) => label === "-");
  const banners = warned.map(([, text]) => make("p", { class: "banner" }, sentence(text))),
    said = linesNode({ lines: lines.filter(([label]) => label !== "-") });
  return make("section", { "aria-label": "Summary" }, make("h2", {}, nameOf(title)), said, banners);
}

export function tablesNode(tables: readonly TableData[], onRow?: (to: string) => unknown): HTMLElement {
  const node = (table: TableData) => {
    const go = onRow && table.to ? { onRow: (row: number) => onRow(table.to?.[row] ?? "") } : {};
    if (!table.folded) return tableNode(table, go);
    const beside = make("div", { class: table.code ? "sides" : null }, linesNode(table), tableParts({ ...table, title: "" }, go));
    return make("details", table.folded === "open" ? { open: "" } : {}, make("summary", {}, nameOf(table.title)), beside);
  };
  return make("div", { class: "tables" }, tables.map(node));
}

export function traceTables(context: Context, of: (trace: Shown) => readonly TableData[]): HTMLElement | null {
  const { traces } = context;
  if (!traces.some((trace) => of(trace).length)) return null;
  const several = traces.length > 1;
  return listOf("section", {}, traces, (trace) => [titleOf(trace, several), tablesNode(of(trace), (to) => lead(context, trace, to))]);
}

function titleOf({ facts }: Shown, several: boolean): Child {
  return several ? make("h2", {}, nameOf(facts.title)) : null;
}

// Groups, kernels and ops, per step or of the recording. They follow the filter, and mark the kernel that is selected.
export function timeTables(context: Context): HTMLElement | null {
  const { store, traces } = context;
  if (!traces.some(({ entry }) => entry.times.recording.length)) return null;
  const node = make("section", { "aria-label": "Kernels and ops" });
  let stops: (() => void)[] = [];
  store.follow(["basis"], ({ basis }) => {
    for (const stop of stops) stop(); // tables that are gone listen no more
    stops = [];
    const parts = traces.map((trace) => {
      const tables = trace.entry.times[basis].map((table) => timeTable(context, trace, table, stops));
      return [titleOf(trace, traces.length > 1), tables];
    });
    replace(node, parts);
  });
  return node;
}

function timeTable(context: Context, trace: Shown, table: TableData, stops: (() => void)[]): HTMLElement {
  const { to } = table;
  if (!to) return tableNode(table);
  const { store } = context,
    { kernels } = trace.facts;
  const kernelAt = to[0].startsWith("kernel ") ? to.map((each) => Number(each.slice("kernel ".length))) : null;
  const words = (at: number) => {
    const kernel = kernelAt && kernels[kernelAt[at]];
    return [...table.cells[at], ...(kernel ? [kernel.name, ...kernel.chain] : [])].join("\n");
  };
  const grid = new Grid(table, {
    onRow: (at) => lead(context, trace, to[at]),
    words,
    filtered: (filter) => store.set({ filter }),
    head: make("h3", {}, nameOf(table.title)),
  });
  // the filter is a text, or a path of the flame graph, which only kernels have
  const filter = async () => {
    const wanted = store.state.filter,
      cases = await chosenCases(trace, wanted);
    if (wanted !== store.state.filter) return; // a later one is on its way
    if (kernelAt) grid.filterBy(wanted, cases && ((at) => cases.has(kernelAt[at])));
    else grid.filterBy(cases ? "" : wanted);
  };
  const mark = async () => {
    const { selection } = store.state;
    const event = selection?.kind === "event" && selection.trace === trace.index ? selection.event : null;
    const found = event === null ? null : await trace.source.details(event).catch(() => null);
    if (selection !== store.state.selection || !kernelAt) return;
    grid.mark(kernelAt.indexOf(found?.case[found.event.indexOf(event ?? -1)] ?? -2));
  };
  stops.push(store.follow(["filter"], filter), store.on(["selection"], mark));
  return make("section", {}, grid.node);
}
