// The page of a job: what the terminal says first, ranks by steps, chosen ranks on one timeline, and every table.

import { unpack } from "./columns.js";
import { Colours } from "./colours.js";
import { button, byId, make, nameOf, replace } from "./dom.js";
import { HeatMap } from "./heatmap.js";
import { laneLegend, lanePane } from "./joblanes.js";
import { showGuesses } from "./sections.js";
import { followTheme } from "./theme.js";

const FIRST_LINES = 12;

async function start() {
  const data = JSON.parse(byId("data").textContent);
  const colours = new Colours();
  const heat = data.heat ? new HeatMap(data.heat, await unpack(data.heat.values), colours) : null;
  const pane = data.lanes ? lanePane(data.lanes, await unpack(data.lanes.timeline.events), colours) : null;
  replace(byId("views"), headNode(data.head),
    heat && make("section", { "aria-label": "Ranks by steps" }, make("h3", {}, "Ranks by steps"), heat.node),
    pane && make("section", { "aria-label": "Timeline" }, make("h3", {}, "Chosen ranks on one timeline"),
      make("p", { class: "faint" }, nameOf(data.lanes.note)), laneLegend(pane), pane.node));
  showGuesses(byId("guesses"), data.guesses);
  replace(byId("traces"), make("div", { class: "tables" }, data.sections.map(sectionNode)));
  followTheme(colours, () => { heat?.redraw(); pane?.timeline.redraw(); });
  Object.assign(window, { heat, pane }); // for the curious, and for the tests
  document.documentElement.dataset.ready = "yes";
}

function headNode(head) {
  const line = ([label, text]) => [make("dt", {}, label), make("dd", {}, nameOf(text))];
  return make("section", { "aria-label": "Summary" }, make("h2", {}, nameOf(head.title)), make("dl", { class: "story" }, head.labelled.map(line)),
    head.bullets.map(([text]) => make("p", { class: "banner" }, nameOf(text))));
}

function sectionNode(section) {
  return make("section", {}, section.title ? make("h3", {}, nameOf(section.title)) : null,
    section.paragraphs.map((text) => make("p", {}, nameOf(text))),
    section.bullets.length ? make("ul", {}, section.bullets.map(([line, text]) => make("li", {}, nameOf(line), text ? [make("br"), nameOf(text)] : null))) : null,
    section.rows.length ? tableNode(section) : null,
    section.after ? make("p", { class: "faint" }, nameOf(section.after)) : null);
}

function tableNode({ head, rows, left }) {
  const side = (at) => (left.includes(at) ? { class: "left" } : {});
  const row = (cells) => make("tr", {}, cells.map((cell, at) => make("td", side(at), nameOf(cell))));
  const body = make("tbody", {}, rows.slice(0, FIRST_LINES).map(row));
  const rest = rows.slice(FIRST_LINES);
  const more = rest.length ? button(`show ${rest.length} more`, () => { body.append(...rest.map(row)); more.remove(); }) : null;
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, head.map((text, at) => make("th", { scope: "col", ...side(at) }, text)))), body), more);
}

start().catch((problem) => {
  replace(byId("traces"), make("p", { class: "banner" }, "This page could not be shown: ", nameOf(String(problem))));
  throw problem;
});
