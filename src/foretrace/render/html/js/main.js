// The report: reads its own data block and builds the page from it.

import { unpack } from "./columns.js";
import { Colours } from "./colours.js";
import { button, byId, make, nameOf, replace } from "./dom.js";
import { Events, TraceFacts } from "./events.js";
import { kernelSection, kernelTable } from "./kernels.js";
import { asChromeTrace, handOver } from "./perfetto.js";
import { drawRoofline } from "./roofline.js";
import { showBanner, showComparison, showFindings, showGuesses, showLadder, showLedger, showStory } from "./sections.js";
import { followTheme } from "./theme.js";
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

// Everything about one trace: summary and timeline at the top of the page, the rest further down.
function section(entry, facts, colours, onView) {
  const pane = new Pane(facts, colours, onView);
  const onKernel = (kernel) => pane.goToKernel(kernel);
  const story = make("section"), findings = make("section"), note = make("p", { class: "faint" });
  const svg = byId("roofline-shape").content.firstElementChild.cloneNode(true);
  showStory(story, entry);
  showFindings(findings, entry.look.findings, (event) => pane.goTo(event));
  drawRoofline(svg, note, facts, onKernel);
  byId("views").append(make("section", { class: "trace", "aria-label": facts.title }, story, pane.node, perfettoButton(pane)));
  byId("traces").append(make("section", { class: "trace", "aria-label": `More about ${facts.title}` },
    make("h2", {}, "Findings in ", nameOf(facts.title)), findings,
    make("h3", {}, "Kernels"), kernelSection(kernelTable(facts, onKernel)), make("h3", {}, "Roofline"), svg, note));
  return pane;
}

// Two timelines start at their step and move together.
function align(panes) {
  if (panes.length < 2) return;
  const span = Math.max(...panes.map((pane) => pane.step.last - pane.step.start));
  for (const pane of panes) pane.timeline.show(pane.step.start - span * 0.01, pane.step.start + span * 1.01);
}

function follow(panes, mover, from, to) {
  const others = panes.filter((pane, at) => at !== mover && panes[mover]);
  for (const { timeline } of others) {
    const shift = timeline.zero - panes[mover].timeline.zero;
    timeline.show(from + shift, to + shift);
  }
}

function perfettoButton(pane) {
  const said = make("span", { class: "faint", role: "status" });
  const open = button("open in Perfetto", async () => {
    try {
      await handOver(asChromeTrace(pane.facts, pane.timeline.events), pane.facts.title, `${pane.facts.title}.json`);
      replace(said, "sent to Perfetto");
    } catch (problem) {
      replace(said, problem.message);
    }
  });
  return make("p", { class: "controls" }, open, said);
}

start().catch((problem) => {
  replace(byId("traces"), make("p", { class: "banner" }, "This page could not be shown: ", nameOf(String(problem))));
  throw problem;
});
