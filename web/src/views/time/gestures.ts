// Moving by mouse: the wheel zooms at the pointer, Shift and the wheel pan, a drag pans, Shift and a drag select a range, a click
// selects what is under the pointer, Alt and a click pin a track. Two fingers zoom.

import { padded, panned, whole, zoomed } from "../../core/moving";
import { opened, type Track } from "../../core/tracks";
import type { Range, Way } from "../../data/source";
import { eventsOf } from "./boxes";
import { pin } from "./names";
import type { Scene } from "./scene";

const WHEEL = 0.002;
const MOVED = 3; // pixels: less is a click
const NEAR = 4;

type Drag = { x: number; y: number; range: Range; scroll: number; moved: boolean; selects: boolean };

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

// Moving and selecting by keyboard. The pointer says where W and S zoom and where M, [ and ] act; without one the middle does.

const STEP = 0.7;
const PAN = 0.2;
const NUDGE = 0.02; // of the view, with Shift and an arrow
const FILLED = 0.1; // room on either side of what F fits
const TOO_SMALL = 2; // pixels
const SHOWN_AS = 40; // a kernel that was too small takes this part of the view

export function moveByKey(scene: Scene, node: HTMLElement): void {
  const { keys, store } = scene.context;
  const here = () => (scene.pointer ? scene.timeAt(scene.pointer.x) : (scene.range.from + scene.range.to) / 2);
  const span = () => scene.range.to - scene.range.from;
  keys.add("w", "zoom in at the pointer", () => scene.move(zoomed(scene.range, STEP, here())));
  keys.add("s", "zoom out at the pointer", () => scene.move(zoomed(scene.range, 1 / STEP, here())));
  keys.add("a", "move left", () => scene.move(panned(scene.range, -PAN * span())));
  keys.add("d", "move right", () => scene.move(panned(scene.range, PAN * span())));
  keys.add("f", "fit the selection; without one, where the page opened", () => fit(scene));
  keys.add("0", "fit the whole recording", () => scene.move(whole(scene.context.traces)));
  keys.add("m", "mark the time at the pointer, or remove the mark there", () => mark(scene, here()));
  keys.add("r", "select the range in view; again: clear it", () => {
    if (store.state.selection?.kind === "range") store.set({ selection: null });
    else select(scene, scene.range);
  });
  keys.add("i", "begin a range at the pointer", () => edge(scene, here(), "from"));
  keys.add("o", "end the range at the pointer", () => edge(scene, here(), "to"));
  keys.add("p", "pin the track of the selected event, or the track whose name has the focus", () => pinChosen(scene, node));
  keys.add("Escape", "clear the selection", () => store.state.selection !== null && store.set({ selection: null }));
  const mine = (target: EventTarget | null) => target === document.body || (target instanceof Node && node.contains(target));
  const arrow = (key: string, text: string, way: Way) =>
    keys.add(key, text, (event) => mine(event.target) && (event.shiftKey ? nudge(scene, way) : walk(scene, way)));
  arrow("ArrowRight", "next in launch order; with Shift: lengthen the selected range", "next");
  arrow("ArrowLeft", "previous in launch order; with Shift: shorten the selected range", "previous");
  arrow("ArrowUp", "to the caller, or to the launch of GPU work", "up");
  arrow("ArrowDown", "to what it called, or to the GPU work it launched", "down");
}

export function fit(scene: Scene): void {
  const range = scene.selected.range();
  if (range) scene.move(padded(range, FILLED));
  else scene.context.store.set({ view: null });
}

function mark(scene: Scene, time: number): void {
  const { store } = scene.context;
  const slack = scene.timeAt(5) - scene.timeAt(0);
  const others = store.state.marks.filter((each) => Math.abs(each - time) > slack);
  const isNew = others.length === store.state.marks.length;
  store.set({ marks: isNew ? [...others, Math.round(time)].sort((a, b) => a - b) : others });
}

function select(scene: Scene, { from, to }: Range): void {
  scene.context.store.set({ selection: { kind: "range", range: { from: Math.round(from), to: Math.round(to) } } });
}

function pinChosen(scene: Scene, node: HTMLElement): unknown {
  const { related, at, trace } = scene.selected;
  const focused = document.activeElement;
  const key = focused instanceof HTMLElement && node.contains(focused) ? focused.dataset.key : undefined;
  const all = [...scene.layout.pinned, ...scene.layout.moving];
  const lane = related && at >= 0 ? related.lane[at] : -1;
  const track = all.find((each) => (key === undefined ? lane >= 0 && each.trace === trace && each.lane === lane : each.key === key));
  return track ? pin(scene, track) : false;
}

// One edge of a range; the other stays, or is that of the view.
function edge(scene: Scene, time: number, which: keyof Range): void {
  const range = { ...(scene.selected.range() ?? scene.range), [which]: time };
  if (range.from < range.to) select(scene, range);
}

function nudge(scene: Scene, way: Way): unknown {
  const range = scene.selected.range();
  if (!range || way === "up" || way === "down") return false;
  const by = (scene.range.to - scene.range.from) * NUDGE * (way === "next" ? 1 : -1);
  return select(scene, { from: range.from, to: Math.max(range.to + by, range.from + 1) });
}

async function walk(scene: Scene, way: Way): Promise<void> {
  const { store, traces, say } = scene.context;
  const { selection } = store.state;
  const trace = traces[selection && selection.kind !== "range" ? selection.trace : 0];
  const event = selection?.kind === "event" ? selection.event : null;
  const next = await trace.source.neighbour(event, way, scene.range.from + trace.zero).catch(() => null);
  if (next === null) say("No further event in this direction.");
  else store.set({ selection: { kind: "event", trace: trace.index, event: next } });
}

// Bring the selected event into view: open its track, scroll to it, and move when it lies outside or is too small to see.
export function reveal(scene: Scene, scroller: HTMLElement, moves: boolean): void {
  const { selected, context } = scene;
  const { related, at } = selected;
  const range = selected.range();
  if (!related || at < 0 || !range) return;
  const { store, traces } = context,
    open = opened(traces[selected.trace], store.state.open, related.lane[at], traces.length > 1);
  if (open !== store.state.open) store.set({ open });
  scene.arrange();
  scrollTo(scene, scroller, scene.place(selected.trace, related.lane[at], related.row[at]));
  const outside = range.to < scene.range.from || range.from > scene.range.to;
  const small = scene.x(range.to) - scene.x(range.from) < TOO_SMALL;
  if (!moves || !(outside || small)) return;
  const span = small ? Math.max((range.to - range.from) * SHOWN_AS, 1000) : scene.range.to - scene.range.from;
  const middle = (range.from + range.to) / 2;
  scene.move({ from: middle - span / 2, to: middle + span / 2 });
}

// Scroll to the GPU of a trace: that is where the gaps of a finding are.
export function showGpu(scene: Scene, scroller: HTMLElement, trace: number): void {
  const track = scene.layout.moving.find((each) => each.trace === trace && scene.isGpu(each));
  if (track) scrollTo(scene, scroller, { y: scene.top(track), height: track.height });
}

function scrollTo(scene: Scene, scroller: HTMLElement, place: { y: number; height: number } | null): void {
  if (!place) return;
  const top = scene.layout.pinnedHeight;
  if (place.y < top) scroller.scrollTop += place.y - top - 4;
  else if (place.y + place.height > scene.height) scroller.scrollTop += place.y + place.height - scene.height + 4;
}
