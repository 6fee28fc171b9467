// The report: reads its own data block and builds the page from it.

import { unpack } from "./columns.js";
import { Colours } from "./colours.js";
import { byId, make, nameOf, replace } from "./dom.js";
import { Events, TraceFacts } from "./events.js";
import { asChromeTrace } from "./perfetto.js";
import { showBanner, showComparison, showGuesses, showLadder, showLedger } from "./sections.js";
import { followTheme } from "./theme.js";
import { addTrace, follow, perfettoButton } from "./tracepage.js";
import { Pane } from "./viewpane.js";

async function start() {
  const data = JSON.parse(byId("data").textContent);
  const colours = new Colours();
  const all = data.traces.map((entry) => new TraceFacts(entry, data.config));
  showBanner(byId("banner"), all);
  showComparison(byId("comparison"), data.comparison);
  showGuesses(byId("guesses"), data.guesses);
  showLadder(byId("ladder"), data.ladder);
  showLedger(byId("ledger"), all);
  const panes = [];
  all.forEach((facts, at) => panes.push(section(data.traces[at], facts, colours, (from, to) => follow(panes, at, from, to))));
  followTheme(colours, () => panes.forEach((pane) => pane.timeline.redraw()));
  align(panes);
  for (const [at, pane] of panes.entries()) await load(pane, data.traces[at].timeline, data.marks);
  window.panes = panes; // for the curious, and for the tests
  document.documentElement.dataset.ready = "yes";
}

async function load(pane, packed, marks) {
  const columns = await unpack(packed.events);
  if (packed.marks) Object.assign(columns, await unpack(packed.marks));
  pane.facts.marks = marks;
  pane.setEvents(new Events(pane.facts, columns));
}

function section(entry, facts, colours, onView) {
  const pane = new Pane(facts, colours, onView);
  const content = () => asChromeTrace(facts, pane.timeline.events);
  addTrace(entry, pane, make("p", { class: "controls" }, perfettoButton(facts.title, `${facts.title}.json`, content)));
  return pane;
}

// Two timelines start at their step and move together.
function align(panes) {
  if (panes.length < 2) return;
  const span = Math.max(...panes.map((pane) => pane.step.last - pane.step.start));
  for (const pane of panes) pane.timeline.show(pane.step.start - span * 0.01, pane.step.start + span * 1.01);
}

start().catch((problem) => {
  replace(byId("traces"), make("p", { class: "banner" }, "This page could not be shown: ", nameOf(String(problem))));
  throw problem;
});
