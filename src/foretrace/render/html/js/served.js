// A pane whose events come from a server, a screenful at a time.

import { unpack } from "./columns.js";
import { replace } from "./dom.js";
import { showDetail } from "./detail.js";
import { Events } from "./events.js";
import { searchResults } from "./kernels.js";
import { numberText } from "./units.js";
import { Pane } from "./viewpane.js";

const WAIT_MS = 60, MARGIN = 0.5;

export class ServedPane extends Pane {
  // `ask(path)` fetches JSON about this trace; `against` adds marks of a comparison: {other, side}.
  constructor(facts, colours, ask, onView, against = null) {
    super(facts, colours, onView);
    Object.assign(this, { ask, against });
    this.load();
  }

  onView(from, to) {
    super.onView(from, to);
    this.load();
  }

  // Fetch what is on screen and half as much on either side, once the view is at rest.
  load() {
    if (!this.ask) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fetchTile(), WAIT_MS);
  }

  async fetchTile() {
    const { from, to, width } = this.timeline, room = (to - from) * MARGIN;
    const turn = this.turn = (this.turn ?? 0) + 1;
    const marks = this.against ? `&against=${this.against.other}&side=${this.against.side}` : "";
    const pixels = Math.ceil((width || 1000) * (1 + 2 * MARGIN));
    const answer = await this.ask(`tile?from=${Math.floor(from - room)}&to=${Math.ceil(to + room)}&width=${pixels}${marks}`);
    if (turn !== this.turn) return; // the view has moved on, and a later answer will come
    const columns = await unpack(answer.events);
    if (answer.marks) Object.assign(columns, await unpack(answer.marks));
    this.setEvents(new Events(this.facts, columns));
    this.tiles = (this.tiles ?? 0) + 1;
  }

  async onSelect(at) {
    if (!this.timeline?.events || at < 0) {
      if (this.timeline) this.timeline.related = null;
      return super.onSelect(-1);
    }
    const event = this.timeline.events.event[at];
    const related = await this.eventsAround(event);
    if (this.timeline.selectedEvent !== event) return null;
    this.timeline.related = related;
    this.timeline.redraw();
    return showDetail(this.detail, related, related.find(event), this.timeline.zero, (next) => this.goTo(related.event[next]));
  }

  async eventsAround(event) {
    return new Events(this.facts, await unpack((await this.ask(`event/${event}`)).events));
  }

  async goTo(event) {
    const related = await this.eventsAround(event), at = related.find(event);
    replace(this.status, at < 0 ? "this event is not on the timeline" : "");
    if (at < 0) return;
    const { timeline } = this, middle = related.start[at] + related.length[at] / 2;
    const span = Math.max(related.length[at] * 12, 20);
    timeline.selectedEvent = event;
    timeline.move(middle - span / 2, middle + span / 2);
    clearTimeout(this.timer);
    await this.fetchTile();
    timeline.select(timeline.events.find(event));
  }

  goToKernel(kernel) {
    return this.goTo(kernel.first);
  }

  async find(text) {
    this.timeline.highlight(text ? this.facts.namesWith(text) : null);
    if (!text) {
      this.found = null;
      return replace(this.status) && replace(this.hits);
    }
    const answer = await this.ask(`search?q=${encodeURIComponent(text)}`), columns = await unpack(answer.events);
    this.found = columns;
    replace(this.status, `${numberText(answer.count)} events`);
    const counts = new Map();
    for (const number of columns.name) counts.set(number, (counts.get(number) ?? 0) + 1);
    return searchResults(this.hits, this.facts, counts, (number) => this.next(1, number));
  }

  next(step, name = null) {
    const { name: names, event } = this.found ?? { name: [], event: [] };
    const found = Array.from(event).filter((_, at) => name === null || names[at] === name);
    if (!found.length) return null;
    const at = found.indexOf(this.timeline.selectedEvent);
    return this.goTo(found[at < 0 ? 0 : (at + step + found.length) % found.length]);
  }
}
