// The tracks on their canvas. Bands come first and hold every event; what lies above them is drawn with a pen.

import { make } from "../../base/dom";
import { ticks } from "../../core/ticks";
import { STRIP } from "../../core/tracks";
import { drawBands } from "./bands";
import { Hits } from "./hits";
import { Overlay } from "./overlay";
import { Pixels } from "./pixels";
import { TICK } from "./ruler";
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
  pen.strokeStyle = scene.context.colours.line;
  pen.beginPath();
  for (const { time } of ticks(from, to, scene.width / TICK)) {
    const x = Math.round(scene.x(time)) + 0.5;
    for (let at = 0; at < edges.length; at += 2) {
      pen.moveTo(x, edges[at]);
      pen.lineTo(x, edges[at + 1]);
    }
  }
  pen.stroke();
}
