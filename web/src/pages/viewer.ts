// The viewer of `foretrace serve`: the same as a report, with events that come from the server. The address names the traces
// (`?traces=0,2`) and what is seen of them (`#view=…`), so that a reload or a link shows it again.

import { Colours } from "../base/colours";
import { byId, make, nameOf, pageData, replace } from "../base/dom";
import { followTheme } from "../base/theme";
import { bytesText } from "../base/units";
import { followAlign } from "../core/align";
import type { Context, Shown } from "../core/context";
import { Joins } from "../core/joins";
import { KeyMap } from "../core/keys";
import { ServedSource } from "../core/servedsource";
import { Store } from "../core/store";
import { unpack } from "../data/columns";
import type { Compared, TraceFacts as Entry } from "../data/documents";
import { TraceFacts } from "../data/events";
import { type Progress, Server } from "../data/server";
import { showBanner, showLedger } from "../views/banner";
import { catalog, chosen, type Listed } from "../views/catalog";
import { showViewer } from "../views/frame";
import { sqlTab } from "../views/sqltab";

const server = new Server();

interface Opened {
  entry: Entry;
  config: string[];
  marks: string[];
}

interface Served extends Shown {
  source: ServedSource;
}

async function start(): Promise<void> {
  const listed = pageData<Listed>();
  const numbers = chosen(location.search, listed.traces.length);
  const open = (wanted: number[]) => {
    location.search = `?traces=${wanted}`;
  };
  replace(byId("catalog"), catalog(listed, numbers, open)).hidden = false;
  const opened = await Promise.all(numbers.map((number) => openTrace(number, listed.traces[number].label)));
  const compared = numbers.length > 1 ? await compare(numbers) : null;
  await show(numbers, opened, compared);
}

// What is being opened, on a line of its own.
function opening(label: string): (progress: Progress) => void {
  const said = make("span");
  const line = make("p", { class: "opening", role: "status" }, make("progress", { "aria-label": "Opening" }), said);
  return ({ seconds, bytes, doing }) => {
    const so = seconds === undefined ? "" : ` (${bytesText(bytes)}): ${doing ? `${doing}, ` : ""}${seconds} s so far`;
    replace(said, nameOf(label), so, " …");
    if (!line.isConnected) byId("views").append(line);
  };
}

function openTrace(number: number, label: string): Promise<Opened> {
  return server.ask<Opened>(`trace/${number}`, { opening: opening(`opening ${label}`) });
}

async function compare(numbers: readonly number[]): Promise<Compared> {
  const wait = opening("comparing");
  wait({});
  return (await server.ask<{ compared: Compared }>(`compare?traces=${numbers}`, { opening: wait })).compared;
}

async function show(numbers: readonly number[], opened: readonly Opened[], compared: Compared | null): Promise<void> {
  const colours = new Colours();
  const traces = opened.map((each, index) => shown(each, index, numbers));
  const joins = await Promise.all((compared?.pairs ?? []).map(async (pair) => new Joins(pair, await unpack(pair.work))));
  const say = (text: string) => replace(byId("status"), text);
  const context: Context = { store: new Store(), traces, colours, keys: new KeyMap(), say, compared, joins, pictures: [] };
  followAlign(context);
  const all = traces.map(({ facts }) => facts);
  showBanner(byId("banner"), all);
  const ledger = make("section");
  showLedger(ledger, all);
  const served = traces.map(({ facts }, at) => ({ number: numbers[at], title: facts.title }));
  showViewer(byId("views"), context, [
    { tab: "ledger", title: "Ledger", node: ledger },
    { tab: "sql", title: "SQL and tables", node: sqlTab(server, served) },
  ]);
  followTheme(colours, () => context.store.touch());
  Object.assign(window, { foretrace: context }); // for the curious, and for the tests
  await Promise.all(traces.map(({ source }) => source.first));
  document.documentElement.dataset.ready = "yes";
}

function shown({ entry, config, marks }: Opened, index: number, numbers: readonly number[]): Served {
  const facts = new TraceFacts(entry, config);
  facts.marks = marks;
  const { steps, step } = entry.timeline;
  const source = new ServedSource(
    (path, signal) => server.ask(`trace/${numbers[index]}/${path}`, signal ? { signal } : {}),
    numbers,
    entry.idle,
  );
  return { index, entry, facts, source, zero: steps[step ?? -1]?.start ?? 0 };
}

start().catch((problem: Error) => {
  replace(byId("views"), make("p", { class: "banner", role: "alert" }, nameOf(problem.message)));
  document.documentElement.dataset.ready = "failed";
});
