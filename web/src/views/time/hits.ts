// What a search found, where it is too small to be a box: a line of at least a pixel.

import type { Pen } from "../../core/pen";
import { Events } from "../../data/events";
import type { Scene } from "./scene";

export class Hits {
  private found: (Events | null)[] = [];
  private text = "";

  constructor(private readonly scene: Scene) {}

  // To be called when the search changes; draws again when the sources have answered.
  async load(): Promise<void> {
    const { store, traces } = this.scene.context;
    const text = store.state.search.trim();
    if (text === this.text) return;
    this.text = text;
    this.found = [];
    if (!text) return;
    const found = await Promise.all(traces.map(({ source }) => source.search(text).catch(() => null)));
    if (text !== this.text) return;
    this.found = found.map((each, at) => each && new Events(traces[at].facts, each.events));
    this.scene.redraw();
  }

  draw(pen: Pen): void {
    this.found.forEach((events, trace) => events && this.drawOf(pen, events, trace));
  }

  private drawOf(pen: Pen, events: Events, trace: number): void {
    const { scene } = this;
    const { zero } = scene.context.traces[trace];
    const drawn = new Set<string>(); // drawing depends on pixels, not on events
    for (let at = 0; at < events.count; at++) {
      const left = scene.x(events.start[at] - zero);
      const width = scene.x(events.start[at] + events.length[at] - zero) - left;
      if (width > 1 || left < 0 || left > scene.width) continue;
      const place = scene.place(trace, events.lane[at], events.row[at]);
      const here = `${Math.round(left)} ${place?.y}`;
      if (!place || drawn.has(here)) continue;
      drawn.add(here);
      pen.fillStyle = scene.context.colours.accent;
      pen.fillRect(Math.round(left), place.y, 1, place.height);
    }
  }
}
