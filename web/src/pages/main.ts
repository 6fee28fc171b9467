// The script of every page. The data that Python wrote says which page it is.

import { Colours, followTheme } from "../base/colours";
import { byId, make, nameOf, pageData, replace } from "../base/dom";
import type { TablesPage } from "../data/documents";
import { headNode, tablesNode } from "../views/page/tables";
import { handOff } from "./handoff";
import { showJob } from "./job";
import { showLessons } from "./lesson";
import { showSnapshot } from "./snapshot";
import { showReport, showServed } from "./trace";

// What a page is drawn with; a change of colours draws it again.
type Redraw = (() => void) | undefined;
type Page = (data: never, colours: Colours) => Redraw | Promise<Redraw>;

const PAGES: Record<string, Page> = {
  report: showReport,
  served: showServed,
  job: showJob,
  snapshot: showSnapshot,
  lessons: showLessons,
  tables: showTables,
  perfetto: handOff,
};

// Of a history, of `foretrace try`, of `foretrace why`.
function showTables({ head, tables }: TablesPage): undefined {
  replace(byId("views"), headNode(head), tablesNode(tables));
}

async function start(): Promise<void> {
  const data = pageData<{ kind: string }>(),
    colours = new Colours();
  let redraw: Redraw;
  followTheme(colours, () => redraw?.());
  redraw = await PAGES[data.kind](data as never, colours);
  document.documentElement.dataset.ready = "yes";
}

start().catch((problem: Error) => {
  const text = ["This page could not be shown: ", nameOf(problem.message)];
  replace(byId("views"), make("p", { class: "banner", role: "alert" }, text));
  document.documentElement.dataset.ready = "failed";
  throw problem;
});
