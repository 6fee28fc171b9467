// What is under the pointer, beside it.

import { make, nameOf, replace } from "../../base/dom";
import { percentText, timeText } from "../../base/units";
import type { Track } from "../../core/tracks";
import { eventsOf } from "./boxes";
import type { Scene } from "./scene";

export function tip(scene: Scene, canvas: HTMLCanvasElement): HTMLElement {
  const node = make("div", { class: "tip", "aria-hidden": "true" });
  node.hidden = true;
  const hide = () => {
    node.hidden = true;
  };
  canvas.addEventListener("pointermove", (event) => {
    const track = event.buttons ? null : scene.trackAt(event.offsetY);
    const text = track && textOf(scene, track, event.offsetX, event.offsetY);
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

function textOf(scene: Scene, track: Track, x: number, y: number): string {
  if (track.gpu >= 0) return busyText(scene, track, x);
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
