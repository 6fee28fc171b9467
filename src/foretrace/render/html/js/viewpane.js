// One trace on screen: its timeline, the steps to jump to, search, and the detail panel of what is selected.

import { button, make, replace } from "./dom.js";
import { showDetail } from "./detail.js";
import { searchResults } from "./kernels.js";
import { Timeline } from "./timeline.js";
import { numberText } from "./units.js";

const HELP = "Drag or A, D to move; Ctrl+wheel or W, S to zoom; arrows walk from event to event; F fits, Escape clears the selection.";

export class Pane {
  constructor(facts, colours, onView = () => {}) {
    Object.assign(this, { facts, colours, told: onView });
    this.step = facts.steps[facts.step] ?? { start: 0, end: facts.end, last: facts.end };
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": `Timeline of ${facts.title}. ${HELP}` });
    const frame = make("div", { class: "canvas" }, this.canvas);
    this.detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "Selected event" });
    this.hits = make("ul", { class: "hits" });
    this.status = make("span", { class: "faint", role: "status" });
    this.timeline = new Timeline(this.canvas, facts, colours,
      { select: (at) => this.onSelect(at), view: (from, to) => this.onView(from, to) }, this.step.start);
    this.node = make("div", { class: "pane" }, this.controls(), this.hits,
      make("div", { class: "split" }, frame, this.detail),
      make("p", { class: "faint help" }, HELP, facts.left_out ? ` ${numberText(facts.left_out)} events were left out to keep this page small.` : ""));
    this.showStep(this.step);
    this.onSelect(-1);
  }

  controls() {
    this.search = make("input", { type: "search", placeholder: "search names", "aria-label": "Search events by name" });
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1); });
    const steps = make("select", { "aria-label": "Step" }, make("option", { value: -1 }, "whole recording"),
      this.facts.steps.map((step, at) => make("option", { value: at }, step.name)));
    steps.value = this.facts.step ?? -1;
    steps.addEventListener("change", () => this.showStep(this.facts.steps[steps.value] ?? { start: 0, end: 0, last: this.facts.end }));
    const { timeline } = this;
    return make("div", { class: "controls" }, steps,
      button("−", () => timeline.zoom(1.5), { "aria-label": "Zoom out" }), button("+", () => timeline.zoom(1 / 1.5), { "aria-label": "Zoom in" }),
      button("‹", () => timeline.pan(-0.25), { "aria-label": "Move left" }), button("›", () => timeline.pan(0.25), { "aria-label": "Move right" }),
      this.search, button("previous", () => this.next(-1)), button("next", () => this.next(1)), this.status);
  }

  setEvents(events) {
    this.timeline.setEvents(events);
  }

  showStep(step) {
    const room = (step.last - step.start) * 0.01;
    this.timeline.zero = step.start;
    this.timeline.move(step.start - room, step.last + room);
  }

  onView(from, to) {
    this.told(from, to);
  }

  onSelect(at) {
    if (this.timeline) showDetail(this.detail, this.timeline.events, at, this.timeline.zero, (next) => this.timeline.select(next, true));
  }

  // Select an event by its number in the trace; says so when it is not on the timeline.
  goTo(event) {
    const at = this.timeline.events?.find(event) ?? -1;
    replace(this.status, at < 0 ? "this event is not on the timeline" : "");
    if (at < 0) return;
    this.canvas.scrollIntoView({ block: "nearest" });
    this.timeline.select(at, true);
  }

  // The first launch of a kernel in the step that is shown, or else anywhere.
  goToKernel(kernel) {
    const { events, zero } = this.timeline, number = this.facts.kernels.indexOf(kernel);
    const at = events.case.findIndex((each, at) => each === number && events.start[at] >= zero);
    this.goTo(at < 0 ? kernel.first : events.event[at]);
  }

  find(text) {
    const { events } = this.timeline;
    this.found = [];
    if (!text || !events) {
      this.timeline.highlight(null);
      return replace(this.status) && replace(this.hits);
    }
    const names = this.facts.namesWith(text), counts = new Map();
    for (let at = 0; at < events.count; at++) {
      const number = events.nameNumber[at];
      if (!names.has(number)) continue;
      this.found.push(at);
      counts.set(number, (counts.get(number) ?? 0) + 1);
    }
    this.found.sort((a, b) => events.start[a] - events.start[b]);
    this.timeline.highlight(names);
    replace(this.status, `${numberText(this.found.length)} events`);
    searchResults(this.hits, this.facts, counts, (number) => this.next(1, number));
    return names;
  }

  // The next event found, after the selected one; of one name when a name is given.
  next(step, name = null) {
    const { events, selected } = this.timeline;
    const found = (this.found ?? []).filter((at) => name === null || events.nameNumber[at] === name);
    if (!found.length) return;
    const at = found.indexOf(selected);
    this.timeline.select(found[at < 0 ? 0 : (at + step + found.length) % found.length], true);
  }
}
