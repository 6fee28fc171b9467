// The viewer of one trace or several. A report holds its events; the page of `foretrace serve` asks the server for them. There the
// address names the traces (`?traces=0,2`) and what is seen of them (`#view=…`), so that a reload or a link shows it again.

import type { Colours } from "../base/colours";
import { byId, make, nameOf, replace } from "../base/dom";
import { bytesText } from "../base/units";
import { type Context, contextOf, type Shown } from "../core/context";
import { Joins } from "../core/joins";
import { followAlign } from "../core/moving";
import { ReportSource } from "../core/reportsource";
import { ServedSource } from "../core/servedsource";
import { unpack } from "../data/columns";
import type { Compared, TraceFacts as Entry, Report } from "../data/documents";
import { Events, TraceFacts } from "../data/events";
import { type Progress, Server } from "../data/server";
import type { DataSource } from "../data/source";
import { showBanner, showOnly, showViewer } from "../views/page/frame";
import { perfettoRows } from "../views/page/perfetto";
import { catalog, chosen, type Listed, sqlTab } from "../views/page/served";
import { tablesNode, traceTables } from "../views/page/tables";
import type { TabPart } from "../views/page/tabs";

export async function showReport(data: Report, colours: Colours): Promise<() => void> {
  const traces = await Promise.all(data.traces.map((entry, index) => reportTrace(data, entry, index)));
  const own: TabPart[] = Object.entries(data.tabs).map(([title, tables]) => {
    return { tab: title.toLowerCase(), title, node: tablesNode(tables) };
  });
  const tabs: Tabs = (context, ledger) => [
    ...own,
    { tab: "ledger", title: "Ledger", node: make("section", {}, ledger, perfettoRows(context.traces)) },
  ];
  const redraw = await show(traces, data.compared, tabs, data.only, colours);
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame); // sizes are known after the first, drawn in the second
  return redraw;
}

async function reportTrace(data: Report, entry: Entry, index: number): Promise<Shown> {
  const { events, marks } = entry.timeline;
  const columns = events ? await unpack(events) : {};
  if (marks) Object.assign(columns, await unpack(marks));
  return shown(index, { entry, ...data }, (facts) => new ReportSource(new Events(facts, columns)));
}

const server = new Server();

export async function showServed(listed: Listed, colours: Colours): Promise<(() => void) | undefined> {
  const numbers = chosen(location.search, listed.traces.length);
  const open = (wanted: number[]) => {
    location.search = `?traces=${wanted}`;
  };
  replace(byId("catalog"), catalog(listed, numbers, open)).hidden = false;
  if (!listed.traces.length) return undefined;
  const openTrace = (number: number) =>
    server.ask<Opened>(`trace/${number}`, { opening: opening(`opening ${listed.traces[number].label}`) });
  const opened = await Promise.all(numbers.map(openTrace));
  const compared = numbers.length > 1 ? await compare(numbers) : null;
  const sources: ServedSource[] = [];
  const traces = opened.map((each, index) =>
    shown(index, each, (facts) => {
      sources[index] = new ServedSource((path, signal) => server.ask(`trace/${numbers[index]}/${path}`, { signal }), facts, numbers);
      return sources[index];
    }),
  );
  const titles = traces.map(({ facts }, at) => ({ number: numbers[at], title: facts.title }));
  const tabs: Tabs = (_, ledger) => [
    { tab: "ledger", title: "Ledger", node: ledger },
    { tab: "sql", title: "SQL and tables", node: sqlTab(server, titles) },
  ];
  const redraw = await show(traces, compared, tabs, "", colours);
  await Promise.all(sources.map(({ first }) => first));
  return redraw;
}

function opening(label: string): (progress: Progress) => void {
  const said = make("span");
  const line = make("p", { class: "opening", role: "status" }, make("progress", { "aria-label": "Opening" }), said);
  return ({ seconds, bytes, doing }) => {
    const so = seconds === undefined ? "" : ` (${bytesText(bytes)}): ${doing ? `${doing}, ` : ""}${seconds} s so far`;
    replace(said, nameOf(label), so, " …");
    if (!line.isConnected) byId("views").append(line);
  };
}

async function compare(numbers: readonly number[]): Promise<Compared> {
  const wait = opening("comparing");
  wait({});
  return (await server.ask<{ compared: Compared }>(`compare?traces=${numbers}`, { opening: wait })).compared;
}

type Opened = { entry: Entry; marks: string[] };

function shown(index: number, { entry, marks }: Opened, source: (facts: TraceFacts) => DataSource): Shown {
  const facts = new TraceFacts(entry);
  facts.marks = marks;
  const { steps, step } = entry.timeline;
  return { index, entry, facts, source: source(facts), zero: steps[step ?? -1]?.start ?? 0 };
}

type Tabs = (context: Context, ledger: HTMLElement | null) => TabPart[];

async function show(traces: Shown[], compared: Compared | null, tabs: Tabs, only: string, colours: Colours): Promise<() => void> {
  const joins = await Promise.all((compared?.pairs ?? []).map(async (pair) => new Joins(pair, await unpack(pair.work))));
  const context = contextOf(traces, colours, compared, joins);
  followAlign(context);
  showBanner(byId("banner"), traces);
  const ledger = traceTables(context, ({ entry }) => entry.ledger);
  if (only) showOnly(byId("views"), context, only);
  else showViewer(byId("views"), context, tabs(context, ledger));
  Object.assign(window, { foretrace: context }); // for the curious, and for the tests
  context.store.touch(); // views are in the page, and have a size
  return () => context.store.touch();
}
