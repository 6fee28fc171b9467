// The report of one trace or several: the viewer over the events that the page holds.

import { Colours } from "../base/colours";
import { byId, make, nameOf, pageData, replace } from "../base/dom";
import { followTheme } from "../base/theme";
import { followAlign } from "../core/align";
import type { Context, Shown } from "../core/context";
import { Joins } from "../core/joins";
import { KeyMap } from "../core/keys";
import { ReportSource } from "../core/reportsource";
import { Store } from "../core/store";
import { unpack } from "../data/columns";
import type { Report } from "../data/documents";
import { Events, TraceFacts } from "../data/events";
import { showBanner, showLedger } from "../views/banner";
import { showViewer } from "../views/frame";
import { showMatmuls } from "../views/gemmheat";
import { showGuesses, showLadder } from "../views/guesses";
import { showOnly } from "../views/only";
import { perfettoRows } from "../views/perfetto";

async function start(): Promise<void> {
  const data = pageData<Report>();
  const colours = new Colours();
  const traces = await Promise.all(data.traces.map((_, index) => loaded(data, index)));
  const { compared } = data;
  const joins = await Promise.all((compared?.pairs ?? []).map(async (pair) => new Joins(pair, await unpack(pair.work))));
  const say = (text: string) => replace(byId("status"), text);
  const context: Context = { store: new Store(), traces, colours, keys: new KeyMap(), say, compared, joins, pictures: [] };
  followAlign(context);
  showBanner(
    byId("banner"),
    traces.map((each) => each.facts),
  );
  if (data.only) showOnly(byId("views"), context, data.only);
  else showAll(context, data);
  followTheme(colours, () => context.store.touch());
  Object.assign(window, { foretrace: context }); // for the curious, and for the tests
  await painted();
  document.documentElement.dataset.ready = "yes";
}

function showAll(context: Context, data: Report): void {
  const all = context.traces.map((each) => each.facts);
  showViewer(byId("views"), context, [
    { tab: "guesses", title: "Guesses", node: filled(data.guesses, (node, guesses) => showGuesses(node, guesses)) },
    { tab: "matmuls", title: "Matmuls", node: filled(data.matmuls, showMatmuls) },
    { tab: "ladder", title: "Ladder", node: filled(data.ladder, showLadder) },
    { tab: "ledger", title: "Ledger", node: make("section", {}, filled(all, showLedger), perfettoRows(context.traces)) },
  ]);
}

// Sizes are known after the first frame, and drawn in the second.
async function painted(): Promise<void> {
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}

async function loaded(data: Report, index: number): Promise<Shown> {
  const entry = data.traces[index],
    facts = new TraceFacts(entry, data.config);
  facts.marks = data.marks;
  const { events, marks, steps, step } = entry.timeline;
  const columns = events ? await unpack(events) : {};
  if (marks) Object.assign(columns, await unpack(marks));
  return { index, entry, facts, source: new ReportSource(new Events(facts, columns)), zero: steps[step ?? -1]?.start ?? 0 };
}

function filled<Data>(data: Data | null, show: (node: HTMLElement, data: Data) => unknown): HTMLElement | null {
  if (!data) return null;
  const node = make("section");
  show(node, data);
  return node;
}

start().catch((problem) => {
  replace(byId("traces"), make("p", { class: "banner" }, "This page could not be shown: ", nameOf(String(problem))));
  throw problem;
});
