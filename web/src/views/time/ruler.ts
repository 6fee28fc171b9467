// The ruler: it stays in view, and counts from the start of the step that the traces are aligned by.

import { rgbOf } from "../../base/colours";
import { make } from "../../base/dom";
import { ownTime } from "../../core/context";
import { panned, whole } from "../../core/moving";
import type { Pen } from "../../core/pen";
import { fittingTicks } from "../../core/ticks";
import type { TraceFacts } from "../../data/events";
import type { Range, Tile } from "../../data/source";
import { Pixels, pixelPlaces, type Shares } from "./bands";
import type { Scene } from "./scene";
import { drawOnRuler, type RulerText, rangeTexts } from "./shading";

export const RULER = 22;

// Labels are text of the page: they can be read aloud and copied. Lines and marks are drawn.
export function ruler(scene: Scene): HTMLElement {
  const canvas = make("canvas", { "aria-label": "Marks" });
  const labels = make("div", { class: "labels" });
  const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
  scene.paint(() => {
    const width = Math.round(scene.width * scene.ratio);
    if (canvas.width !== width) canvas.width = width;
    canvas.height = Math.round(RULER * scene.ratio); // also clears it
    pen.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
    drawLines(scene, pen);
    drawOnRuler(scene, pen, RULER);
    showLabels(labels, [...tickTexts(scene), ...rangeTexts(scene)]);
  });
  return make("div", { class: "ruler" }, canvas, labels);
}

function tickTexts(scene: Scene): RulerText[] {
  const { from, to } = scene.range;
  return fittingTicks(from, to, scene.width).map(({ time, label }) => ({ x: Math.round(scene.x(time)) + 3, text: label, kind: "tick" }));
}

// Nodes are used again: sixty times a second none is made.
function showLabels(node: HTMLElement, texts: readonly RulerText[]): void {
  while (node.childElementCount < texts.length) node.append(make("div"));
  while (node.childElementCount > texts.length) node.lastElementChild?.remove();
  texts.forEach(({ x, text, kind }, at) => {
    const own = node.children[at] as HTMLElement;
    if (own.textContent !== text) own.textContent = text;
    if (own.className !== kind) own.className = kind;
    own.style.transform = `translateX(${x}px)`;
  });
}

// The same with a pen, labels included.
export function drawRuler(scene: Scene, pen: Pen): void {
  const { colours } = scene.context;
  pen.font = "11px ui-monospace, monospace";
  pen.textBaseline = "middle";
  drawLines(scene, pen);
  drawOnRuler(scene, pen, RULER);
  for (const { x, text, kind } of [...tickTexts(scene), ...rangeTexts(scene)]) {
    if (kind === "range") {
      pen.fillStyle = colours.of("back");
      pen.fillRect(x, 1, pen.measureText(text).width + 8, RULER - 5);
    }
    pen.fillStyle = colours.of(kind === "tick" ? "faint" : kind === "range" ? "accent" : "note");
    pen.fillText(text, kind === "range" ? x + 4 : x, RULER / 2);
  }
}

function drawLines(scene: Scene, pen: Pen): void {
  const { from, to } = scene.range;
  pen.strokeStyle = scene.context.colours.of("line");
  pen.beginPath();
  for (const { time } of fittingTicks(from, to, scene.width)) {
    const x = Math.round(scene.x(time)) + 0.5;
    pen.moveTo(x, 0);
    pen.lineTo(x, RULER);
  }
  pen.stroke();
}

// The whole recording in a strip, with the range in view. A press or a drag moves the view, arrow keys too.

const HEIGHT = 32;
const MOST_LANES = 8;
const RETRY_MS = 500;

export function minimap(scene: Scene): HTMLElement {
  const canvas = make("canvas", { "aria-label": "Whole recording" });
  const shown = make("div", { class: "window" });
  const about = { "aria-label": "Whole recording; the range in view", "aria-valuemin": 0, "aria-valuemax": 100 };
  const node = make("div", { class: "minimap", role: "slider", tabindex: 0, ...about }, canvas, shown);
  let drawn = "";
  scene.paint(() => {
    const all = whole(scene.context.traces);
    const part = (time: number) => (Math.min(Math.max((time - all.from) / (all.to - all.from), 0), 1) * 100).toFixed(3);
    shown.style.left = `${part(scene.range.from)}%`;
    shown.style.right = `${100 - Number(part(scene.range.to))}%`;
    node.setAttribute("aria-valuenow", String(Math.round(Number(part((scene.range.from + scene.range.to) / 2)))));
    const wanted = [node.clientWidth, scene.ratio, all.from, all.to, scene.context.colours.of("back")].join();
    if (wanted === drawn) return;
    drawn = wanted;
    draw(scene, canvas, all, node.clientWidth).then((isWhole) => {
      if (isWhole) return;
      drawn = ""; // a server was busy with something else
      setTimeout(() => scene.redraw(), RETRY_MS);
    });
  });
  listen(scene, node);
  return node;
}

async function draw(scene: Scene, canvas: HTMLCanvasElement, all: Range, wide: number): Promise<boolean> {
  const { traces } = scene.context;
  const width = Math.max(Math.round(wide * scene.ratio), 1);
  const each = Math.floor((HEIGHT * scene.ratio) / traces.length);
  const pixels = new Pixels();
  const tiles = await Promise.all(
    traces.map(({ source, facts, zero }) =>
      source.tile({ from: all.from + zero, to: all.to + zero }, width, hostLanes(facts)).catch(() => null),
    ),
  );
  pixels.begin(width, each * traces.length);
  tiles.forEach((tile, at) => {
    if (!tile) return;
    const pixel = (tile.to - tile.from) / tile.width;
    const place = { at: pixelPlaces(tile, ownTime(traces[at], all), width), pixel, top: at * each, height: each - 1, clip: 0, faint: 1 };
    pixels.strip(sharesOf(scene, at, tile), place);
  });
  canvas.width = width;
  canvas.height = each * traces.length;
  pixels.show(canvas.getContext("2d") as CanvasRenderingContext2D);
  return tiles.every((tile) => tile !== null);
}

// Without a GPU the threads are shown, at most so many.
function hostLanes({ lanes }: TraceFacts): number[] {
  if (lanes.some((lane) => lane.gpu && lane.gpu_number !== null)) return []; // ranks of a job have no GPU of their own
  return lanes.map((_, at) => at).slice(0, MOST_LANES);
}

// How busy the first GPU is; where there is none, the first row with more than annotations.
function sharesOf({ context }: Scene, trace: number, tile: Tile): Shares {
  const { groups } = context.traces[trace].facts;
  const isWork = (group: number) => !groups[group]?.endsWith("annotation");
  const row = tile.rows.find(({ bands }) => [...bands.keys()].some(isWork));
  const bands = tile.strips[0]?.bands ?? row?.bands ?? new Map<number, Float64Array>();
  return [...bands].map(([group, busy]) => [busy, rgbOf(context.colours.of(groups[group]))]);
}

function listen(scene: Scene, node: HTMLElement): void {
  const go = (event: PointerEvent) => {
    const all = whole(scene.context.traces);
    const box = node.getBoundingClientRect();
    const time = all.from + ((event.clientX - box.left) / box.width) * (all.to - all.from);
    const half = (scene.range.to - scene.range.from) / 2;
    scene.move({ from: time - half, to: time + half });
  };
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    go(event);
  });
  node.addEventListener("pointermove", (event) => {
    if (node.hasPointerCapture(event.pointerId)) go(event);
  });
  node.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    event.stopPropagation();
    scene.move(panned(scene.range, way * 0.5 * (scene.range.to - scene.range.from)));
  });
}
