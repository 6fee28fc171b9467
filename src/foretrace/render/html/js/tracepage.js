// What the report and the viewer share about one trace: its sections, the way to Perfetto, and timelines that move together.

import { button, byId, make, nameOf, replace } from "./dom.js";
import { drawFlame } from "./flame.js";
import { kernelSection, kernelTable } from "./kernels.js";
import { handOver } from "./perfetto.js";
import { drawRoofline } from "./roofline.js";
import { showFindings, showSummary } from "./sections.js";

// Summary and timeline at the top of the page with `actions`, the rest further down with `more` at its end.
export function addTrace(entry, pane, actions, more = null) {
  const { facts } = pane, onKernel = (kernel) => pane.goToKernel(kernel);
  const summary = make("section"), findings = make("section"), note = make("p", { class: "faint" });
  const flameNote = make("p", { class: "faint" });
  const [svg, flame] = ["roofline-shape", "flame-shape"].map((id) => byId(id).content.firstElementChild.cloneNode(true));
  showSummary(summary, entry);
  showFindings(findings, entry.look, (event) => pane.goTo(event));
  drawRoofline(svg, note, facts, onKernel);
  drawFlame(flame, flameNote, entry.flame);
  byId("views").append(make("section", { class: "trace", "aria-label": facts.title }, summary, pane.node, actions));
  byId("traces").append(make("section", { class: "trace", "aria-label": `More about ${facts.title}` },
    make("h2", {}, "Findings in ", nameOf(facts.title)), findings,
    make("h3", {}, "Flame graph of GPU time"), flame, flameNote,
    make("h3", {}, "Kernels"), kernelSection(kernelTable(facts, onKernel)), make("h3", {}, "Roofline"), svg, note, more));
}

// A button that sends what `content()` gives, and the place where it says how that went.
export function perfettoButton(title, fileName, content) {
  const said = make("span", { class: "faint", role: "status" });
  const open = button("open in Perfetto", async () => {
    try {
      await handOver(content(), title, fileName);
      replace(said, "sent to Perfetto");
    } catch (problem) {
      replace(said, problem.message);
    }
  });
  return [open, said];
}

// The other timelines show the same stretch, counted from their own step.
export function follow(panes, mover, from, to) {
  const own = panes[mover];
  for (const pane of panes.filter((each) => own && each !== own)) {
    const shift = pane.timeline.zero - own.timeline.zero;
    pane.timeline.show(from + shift, to + shift);
    pane.load?.();
  }
}
