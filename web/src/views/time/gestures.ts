// Moving by mouse: the wheel zooms at the pointer, Shift and the wheel pan, a drag pans, Shift and a drag select a range, a click
// selects what is under the pointer, Alt and a click pin a track. Two fingers zoom.

import { panned, zoomed } from "../../core/moving";
import type { Track } from "../../core/tracks";
import type { Range } from "../../data/source";
import { eventsOf } from "./boxes";
import { pin } from "./names";
import type { Scene } from "./scene";

const WHEEL = 0.002;
const MOVED = 3; // pixels: less is a click
const NEAR = 4;

interface Drag {
  x: number;
  y: number;
  range: Range;
  scroll: number;
  moved: boolean;
  selects: boolean;
}

export function listen(scene: Scene, canvas: HTMLCanvasElement, scroller: HTMLElement): void {
  let drag: Drag | null = null;
  const fingers = new Map<number, number>(); // where each touches the canvas
  canvas.addEventListener("wheel", (event) => wheel(scene, scroller, event), { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { offsetX: x, offsetY: y } = event;
    fingers.set(event.pointerId, x);
    drag = { x, y, range: scene.range, scroll: scroller.scrollTop, moved: false, selects: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    scene.pointer = { x: event.offsetX, y: event.offsetY };
    if (fingers.size > 1) {
      if (drag) drag.moved = true;
      pinched(scene, fingers, event);
    } else if (drag) dragged(scene, scroller, drag, event);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) click(scene, event);
    fingers.delete(event.pointerId);
    drag = null;
  });
  canvas.addEventListener("pointercancel", (event) => {
    fingers.delete(event.pointerId);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => {
    scene.pointer = null;
  });
}

function wheel(scene: Scene, scroller: HTMLElement, event: WheelEvent): void {
  event.preventDefault();
  const span = scene.range.to - scene.range.from;
  const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
  if (event.altKey) scroller.scrollTop += event.deltaY;
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
    scene.move(panned(scene.range, (sideways / scene.width) * span));
  else scene.move(zoomed(scene.range, Math.exp(event.deltaY * WHEEL), scene.timeAt(event.offsetX)));
}

// Two fingers: what was between them stays there.
function pinched(scene: Scene, fingers: Map<number, number>, { pointerId, offsetX }: PointerEvent): void {
  const other = [...fingers].find(([id]) => id !== pointerId)?.[1] ?? 0;
  const before = Math.abs((fingers.get(pointerId) ?? offsetX) - other);
  const after = Math.abs(offsetX - other);
  fingers.set(pointerId, offsetX);
  if (before > MOVED && after > MOVED) scene.move(zoomed(scene.range, before / after, scene.timeAt(other)));
}

function dragged(scene: Scene, scroller: HTMLElement, drag: Drag, event: PointerEvent): void {
  const { offsetX: x, offsetY: y } = event;
  drag.moved ||= Math.abs(x - drag.x) > MOVED || Math.abs(y - drag.y) > MOVED;
  if (!drag.moved) return;
  if (drag.selects) {
    const [from, to] = [scene.timeAt(drag.x), scene.timeAt(x)].sort((a, b) => a - b);
    scene.context.store.set({ selection: { kind: "range", range: { from, to } } });
    return;
  }
  const span = drag.range.to - drag.range.from;
  scene.move(panned(drag.range, ((drag.x - x) / scene.width) * span));
  scroller.scrollTop = drag.scroll + drag.y - y;
}

async function click(scene: Scene, event: PointerEvent): Promise<void> {
  const track = scene.trackAt(event.offsetY);
  if (event.altKey) {
    if (track) pin(scene, track);
    return;
  }
  const found = track && track.lane >= 0 ? await hit(scene, track, event.offsetX, event.offsetY) : null;
  scene.clicked = true;
  scene.context.store.set({ selection: found === null || !track ? null : { kind: "event", trace: track.trace, event: found } });
}

// The event under the pointer. Where pixels are too small for boxes, the source gives the few around the pointer.
async function hit(scene: Scene, track: Track, x: number, y: number): Promise<number | null> {
  const row = Math.floor((y - scene.top(track)) / track.rowHeight);
  const { zero, source } = scene.shown(track);
  const time = scene.timeAt(x) + zero;
  const slack = scene.timeAt(NEAR) - scene.timeAt(0);
  const shown = scene.rowsOf(track).find((each) => each.row === row);
  if (!shown) return null;
  const wide = eventsOf(scene, track, shown);
  const at = wide.at(track.lane, row, time, 0);
  if (at >= 0) return wide.event[at];
  const close = await source.tile({ from: time - slack, to: time + slack }, 2000, [track.lane]);
  const near = close.rows.find((each) => each.row === row);
  const small = near ? eventsOf(scene, track, near) : null;
  const found = small?.at(track.lane, row, time, slack) ?? -1;
  return small && found >= 0 ? small.event[found] : null;
}
