// The timeline: tracks on a canvas under a ruler, GPU first; moving by mouse and by keyboard.

import "./time.css";
import { make, nameOf, replace } from "../../base/dom";
import { percentText, timeText } from "../../base/units";
import type { Context } from "../../core/context";
import type { Track } from "../../core/tracks";
import { legend } from "../page/legend";
import { eventsOf } from "./boxes";
import { tracksCanvas } from "./canvas";
import { listen, moveByKey, reveal, showGpu } from "./gestures";
import { names } from "./names";
import { minimap, RULER, ruler } from "./ruler";
import { Scene } from "./scene";
import { timelinePicture } from "./timepicture";
import { Waiting } from "./waiting";

const SHARE = 0.47; // of the window's height
const LEAST = 200;
const BELOW = 60; // pixels for the legend and the heads of the tabs

// What the panel of the selection leaves of the window, when the page is not scrolled.
function free(body: HTMLElement): number {
  const below = Number.parseFloat(document.documentElement.style.getPropertyValue("--panel-below")) || 0;
  if (!below) return window.innerHeight;
  return Math.round(window.innerHeight - below - BELOW - body.getBoundingClientRect().top - window.scrollY);
}

export function timeline(context: Context): HTMLElement {
  const { store } = context;
  const scene = new Scene(context);
  const gutter = names(scene);
  const canvas = tracksCanvas(scene);
  const waiting = new Waiting(scene);
  const sides = make("div", { class: "gutter" }, gutter.pinned, gutter.moving);
  const body = make("div", { class: "stage" }, waiting.node, sides, canvas, tip(scene, canvas, waiting));
  const node = make("section", { class: "timeline", "aria-label": "Timeline" }, minimap(scene), ruler(scene), body, legend(context));
  const arrange = () => {
    scene.arrange();
    const room = Math.max(Math.min(Math.round(window.innerHeight * SHARE) - RULER, free(body)), LEAST);
    scene.height = Math.min(scene.layout.pinnedHeight + scene.layout.height, room);
    scene.width = Math.max(canvas.clientWidth, 100);
    scene.ratio = window.devicePixelRatio || 1;
    body.style.height = `${scene.height}px`;
    gutter.show();
    scene.redraw();
  };
  context.pictures.push(timelinePicture(scene, waiting));
  listen(scene, canvas, gutter.moving);
  moveByKey(scene, node);
  store.on(["pinned", "open", "align"], arrange);
  store.on(["view", "marks", "notes"], () => scene.redraw());
  store.on(["search", "filter"], () => {
    scene.look();
    scene.redraw();
  });
  store.on(["selection"], (state, changed) => {
    scene.redraw();
    if (state.selection?.kind === "finding") showGpu(scene, gutter.moving, state.selection.trace);
    const moves = !changed.has("view") && !scene.clicked;
    scene.clicked = false;
    scene.selected.load().then((isNew) => isNew && reveal(scene, gutter.moving, moves));
  });
  scene.look();
  scene.selected.load();
  new ResizeObserver(arrange).observe(canvas);
  window.addEventListener("resize", arrange);
  return node;
}

function tip(scene: Scene, canvas: HTMLCanvasElement, waiting: Waiting): HTMLElement {
  const node = make("div", { class: "tip", "aria-hidden": "true", hidden: "" });
  const hide = () => {
    node.hidden = true;
  };
  canvas.addEventListener("pointermove", (event) => {
    const track = event.buttons ? null : scene.trackAt(event.offsetY);
    const text = track && textOf(scene, waiting, track, event.offsetX, event.offsetY);
    if (!text) return hide();
    replace(node, nameOf(text));
    node.hidden = false;
    const right = event.offsetX > scene.width / 2;
    const gap = 12;
    node.style.top = `${event.offsetY + gap}px`;
    node.style.right = right ? `${scene.width - event.offsetX + gap}px` : "auto";
    node.style.left = right ? "auto" : `${canvas.offsetLeft + event.offsetX + gap}px`;
  });
  canvas.addEventListener("pointerleave", hide);
  canvas.addEventListener("pointerdown", hide);
  return node;
}

function textOf(scene: Scene, waiting: Waiting, track: Track, x: number, y: number): string {
  if (track.gpu >= 0) return [busyText(scene, track, x), waiting.wordsAt(track, x)].filter(Boolean).join(", idle ");
  const number = Math.floor((y - scene.top(track)) / track.rowHeight);
  const row = scene.rowsOf(track).find((each) => each.row === number);
  if (!row) return "";
  const events = eventsOf(scene, track, row);
  const at = events.at(track.lane, number, scene.timeAt(x) + scene.shown(track).zero, scene.timeAt(1) - scene.timeAt(0));
  return at < 0 ? "" : `${events.label(at)} · ${timeText(events.length[at])}`;
}

// How busy the GPU is around the pointer, in the time that one pixel shows.
function busyText(scene: Scene, track: Track, x: number): string {
  const tile = scene.tiles[track.trace];
  const strip = tile?.strips.find((each) => each.gpu === track.gpu);
  if (!tile || !strip) return "";
  const pixel = (tile.to - tile.from) / tile.width;
  const at = Math.floor((scene.timeAt(x) + scene.shown(track).zero - tile.from) / pixel);
  let busy = 0;
  for (const band of strip.bands.values()) busy += band[at] ?? 0;
  return `${percentText(Math.min(busy / pixel, 1))} busy in ${timeText(pixel)}`;
}
