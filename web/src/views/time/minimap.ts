// The whole recording in a strip, with the range in view. A press or a drag moves the view, arrow keys too.

import { make } from "../../base/dom";
import { ownTime } from "../../core/context";
import { panned, whole } from "../../core/moving";
import type { TraceFacts } from "../../data/events";
import type { Range, Tile } from "../../data/source";
import { pixelPlaces } from "./bands";
import { rgbOf, type Shares } from "./ground";
import { Pixels } from "./pixels";
import type { Scene } from "./scene";

const HEIGHT = 32;
const MOST_LANES = 8;
const RETRY_MS = 500;

export function minimap(scene: Scene): HTMLElement {
  const canvas = make("canvas", { "aria-label": "Whole recording" });
  const shown = make("div", { class: "window" });
  const label = "Whole recording; the range in view";
  const node = make("div", {
    class: "minimap",
    role: "slider",
    tabindex: 0,
    "aria-label": label,
    "aria-valuemin": 0,
    "aria-valuemax": 100,
  });
  node.append(canvas, shown);
  let drawn = "";
  scene.paint(() => {
    const all = whole(scene.context.traces);
    const part = (time: number) => (Math.min(Math.max((time - all.from) / (all.to - all.from), 0), 1) * 100).toFixed(3);
    shown.style.left = `${part(scene.range.from)}%`;
    shown.style.right = `${100 - Number(part(scene.range.to))}%`;
    node.setAttribute("aria-valuenow", String(Math.round(Number(part((scene.range.from + scene.range.to) / 2)))));
    const wanted = [node.clientWidth, scene.ratio, all.from, all.to, scene.context.colours.back].join();
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

// Whether all of it could be drawn.
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
  if (lanes.some((lane) => lane.gpu)) return [];
  return lanes.map((_, at) => at).slice(0, MOST_LANES);
}

// How busy the first GPU is; where there is none, the first row with more than annotations.
function sharesOf({ context }: Scene, trace: number, tile: Tile): Shares {
  const { groups } = context.traces[trace].facts;
  const isWork = (group: number) => !groups[group]?.endsWith("annotation");
  const row = tile.rows.find(({ bands }) => [...bands.keys()].some(isWork));
  const bands = tile.strips[0]?.bands ?? row?.bands ?? new Map<number, Float64Array>();
  return [...bands].map(([group, busy]) => [busy, rgbOf(context.colours.group(groups[group]))]);
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
