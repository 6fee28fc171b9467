// The tracks on their canvas. Bands come first and hold every event; what lies above them is drawn with a pen.

import { make } from "../../base/dom";
import type { Pen } from "../../core/pen";
import { fittingTicks } from "../../core/ticks";
import { STRIP } from "../../core/tracks";
import { Events } from "../../data/events";
import { drawBands, Pixels } from "./bands";
import { Overlay } from "./overlay";
import type { Scene } from "./scene";

const LABEL = "Timeline. W and S zoom, A and D move, arrows go from event to event, question mark shows all keys.";

export function tracksCanvas(scene: Scene): HTMLCanvasElement {
  const canvas = make("canvas", { class: "tracks", tabindex: 0, role: "application", "aria-label": LABEL });
  const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
  const pixels = new Pixels();
  const overlay = new Overlay(scene, pen);
  const hits = new Hits(scene);
  scene.context.store.on(["search"], () => hits.load());
  hits.load();
  scene.paint(() => {
    const width = Math.round(scene.width * scene.ratio);
    const height = Math.round(scene.height * scene.ratio);
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pixels.begin(width, height);
    drawBands(scene, pixels, scene.ratio);
    pixels.show(pen);
    pen.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
    pen.globalCompositeOperation = "destination-over";
    drawGrid(scene, pen);
    pen.globalCompositeOperation = "source-over";
    overlay.draw();
    hits.draw(pen);
  });
  return canvas;
}

// Lines of the ruler, behind everything; a strip has none, so that its pixels are its own.
export function drawGrid(
  scene: Scene,
  pen: Pick<CanvasRenderingContext2D, "strokeStyle" | "beginPath" | "moveTo" | "lineTo" | "stroke">,
): void {
  const { from, to } = scene.range;
  const strips = scene.visible().filter((track) => track.gpu >= 0);
  const edges = [0, ...strips.flatMap((track) => [scene.top(track), scene.top(track) + STRIP]).sort((a, b) => a - b), scene.height];
  pen.strokeStyle = scene.context.colours.of("line");
  pen.beginPath();
  for (const { time } of fittingTicks(from, to, scene.width)) {
    const x = Math.round(scene.x(time)) + 0.5;
    for (let at = 0; at < edges.length; at += 2) {
      pen.moveTo(x, edges[at]);
      pen.lineTo(x, edges[at + 1]);
    }
  }
  pen.stroke();
}

// What a search found, where it is too small to be a box: a line of at least a pixel.

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
      pen.fillStyle = scene.context.colours.of("note");
      pen.fillRect(Math.round(left), place.y, 1, place.height);
    }
  }
}
