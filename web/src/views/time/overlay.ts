// What lies over the bands: boxes, shaded ranges, the selection and its arrows, marks. All of it is drawn with a pen, so that the
// same drawing makes a picture.

import { timeText } from "../../base/units";
import { type Context, shared } from "../../core/context";
import type { Joins, Place } from "../../core/joins";
import type { Pen } from "../../core/pen";
import { queueDelay } from "../../core/related";
import type { Track } from "../../core/tracks";
import type { Events } from "../../data/events";
import type { Range } from "../../data/source";
import { Boxes } from "./boxes";
import type { Scene } from "./scene";
import { drawMarks, drawNotes, drawShades } from "./shading";

export class Overlay {
  private readonly boxes: Boxes;

  constructor(
    private readonly scene: Scene,
    private readonly pen: Pen,
  ) {
    this.boxes = new Boxes(scene, pen);
  }

  draw(): void {
    const { scene, pen } = this;
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    const moving = scene.visible().filter((track) => !track.pinned);
    this.clipped(scene.layout.pinnedHeight, scene.height, () => {
      for (const track of moving) this.track(track);
      drawJoins(scene, pen);
    });
    this.clipped(0, scene.layout.pinnedHeight, () => scene.layout.pinned.forEach((track) => this.track(track)));
    this.clipped(0, scene.height, () => {
      drawShades(scene, pen);
      drawArrows(scene, pen);
      drawMarks(scene, pen);
      drawNotes(scene, pen);
    });
  }

  private clipped(top: number, bottom: number, draw: () => void): void {
    const { pen, scene } = this;
    pen.save();
    pen.beginPath();
    pen.rect(0, top, scene.width, Math.max(bottom - top, 0));
    pen.clip();
    draw();
    pen.restore();
  }

  private track(track: Track): void {
    const { scene, pen } = this;
    if (track.kind === "title") {
      pen.fillStyle = scene.context.colours.of("line");
      pen.fillRect(0, scene.top(track) + track.height - 3, scene.width, 1);
    }
    for (const row of scene.rowsOf(track)) {
      const y = scene.top(track) + row.row * track.rowHeight;
      if (y < scene.height && y + track.rowHeight > 0) this.boxes.row(track, row, scene.matches[track.trace]);
    }
  }
}

const HEAD = 4;
const LETTER = 6.7; // of the font of 11 pixels

function drawArrows(scene: Scene, pen: Pen): void {
  const { selected } = scene;
  const { related, at, trace } = selected;
  if (!related || at < 0) return;
  pen.strokeStyle = scene.context.colours.of("accent");
  pen.lineWidth = 1.3;
  for (const work of linked(related, at)) arrow(scene, pen, related, work, trace);
  pen.lineWidth = 1;
  if (related.isGpuWork(at)) delayLabel(scene, pen, related, at);
  frame(scene, pen, trace, related, at);
}

function linked(related: Events, at: number): number[] {
  if (related.launch[at] >= 0) return [at];
  const work: number[] = [];
  for (let each = 0; each < related.count; each++) if (related.launch[each] >= 0) work.push(each);
  return work;
}

function arrow(scene: Scene, pen: Pen, related: Events, work: number, trace: number): void {
  const launch = related.find(related.launch[work]);
  const ends = [launch, work].map((at) => at >= 0 && middle(scene, related, at, trace));
  const [from, to] = ends;
  if (!from || !to) return;
  const below = from.y > to.y;
  const [y1, y2] = below ? [from.y, to.y + to.height] : [from.y + from.height, to.y];
  pen.beginPath();
  pen.moveTo(from.x, y1);
  pen.bezierCurveTo(from.x, (y1 + y2) / 2, to.x, (y1 + y2) / 2, to.x, y2);
  const back = below ? HEAD : -HEAD;
  pen.moveTo(to.x - HEAD, y2 + back);
  pen.lineTo(to.x, y2);
  pen.lineTo(to.x + HEAD, y2 + back);
  pen.stroke();
}

function middle(scene: Scene, related: Events, at: number, trace: number): { x: number; y: number; height: number } | false {
  const place = scene.place(trace, related.lane[at], related.row[at]);
  return place ? { x: scene.x(related.start[at] - scene.context.traces[trace].zero), ...place } : false;
}

function delayLabel(scene: Scene, pen: Pen, related: Events, at: number): void {
  const delay = queueDelay(related, at);
  const to = middle(scene, related, at, scene.selected.trace);
  if (delay === null || !to) return;
  const { colours } = scene.context;
  const text = `queued ${timeText(delay)}`;
  const x = Math.min(Math.max(to.x + 6, 2), scene.width - text.length * LETTER - 6);
  const y = to.y + to.height + 10;
  pen.globalAlpha = 0.9;
  pen.fillStyle = colours.of("back");
  pen.fillRect(x - 2, y - 8, text.length * LETTER + 4, 16);
  pen.globalAlpha = 1;
  pen.fillStyle = colours.of("accent");
  pen.fillText(text, x, y);
}

function frame(scene: Scene, pen: Pen, trace: number, related: Events, at: number): void {
  const place = scene.place(trace, related.lane[at], related.row[at]);
  if (!place) return;
  const start = related.start[at] - scene.context.traces[trace].zero;
  const left = Math.max(scene.x(start), -3);
  const right = Math.min(scene.x(start + related.length[at]), scene.width + 3);
  pen.strokeStyle = scene.context.colours.of("text");
  pen.lineWidth = 2;
  pen.strokeRect(left - 1, place.y - 1, Math.max(right - left, 2) + 2, place.height + 2);
  pen.lineWidth = 1;
}

// Ribbons between the GPU tracks of two traces that follow each other: from changed work to what stands in its place. Work that
// is gone ends in a point, new work begins in one. What is selected is drawn strongly, also where it is the same.

type Span = { x: number; end: number; y: number };

function drawJoins(scene: Scene, pen: Pen): void {
  const gpus = (trace: number) => scene.layout.moving.filter((track) => track.trace === trace && scene.isGpu(track));
  for (const joins of scene.context.joins) {
    const above = gpus(joins.pair.a).at(-1),
      [below] = gpus(joins.pair.b);
    if (joins.pair.b !== joins.pair.a + 1 || !above || !below) continue;
    const [top, bottom] = [scene.top(above) + above.height, scene.top(below)];
    if (bottom > top) drawPair(scene, pen, joins, top, bottom);
  }
}

function drawPair(scene: Scene, pen: Pen, joins: Joins, top: number, bottom: number): void {
  const { context } = scene,
    { traces, colours } = context;
  const chosen = chosenPlace(context, joins);
  const ends = (place: Place): [Span | null, Span | null] => {
    const span = (side: 0 | 1, y: number): Span | null => {
      const part = place.sides[side];
      if (!part) return null;
      const { from, to } = shared(traces[side ? joins.pair.b : joins.pair.a], part);
      const x = scene.x(from);
      return { x, end: Math.max(scene.x(to), x + 1), y };
    };
    return [span(0, top), span(1, bottom)];
  };
  pen.save();
  pen.beginPath();
  pen.rect(0, top, scene.width, bottom - top);
  pen.clip();
  const drawn = new Set<string>(); // drawing depends on pixels, not on events
  for (const place of joins.places) {
    if (place === chosen || !joins.changed(place)) continue;
    const [above, below] = ends(place);
    if (outside(above, below, scene.width)) continue;
    const here = [above, below].map((span) => span && `${Math.round(span.x)} ${Math.round(span.end)}`).join();
    if (drawn.has(here)) continue;
    drawn.add(here);
    ribbon(pen, above, below, (top + bottom) / 2, colours.of("faint"), 0.3);
  }
  if (chosen) ribbon(pen, ...ends(chosen), (top + bottom) / 2, colours.of("accent"), 0.6);
  pen.restore();
}

function chosenPlace({ store, traces }: Context, joins: Joins): Place | undefined {
  const { selection } = store.state;
  if (selection?.kind === "event") return joins.holding(selection.trace, selection.event);
  if (selection?.kind !== "range") return undefined;
  return joins.places.find((place) => joins.changed(place) && same(joins.around(place, traces), selection.range));
}

// An address holds whole nanoseconds.
function same(a: Range, b: Range): boolean {
  return Math.abs(a.from - b.from) < 1 && Math.abs(a.to - b.to) < 1;
}

function outside(above: Span | null, below: Span | null, width: number): boolean {
  const spans = [above, below].filter((span) => span !== null);
  return spans.every((span) => span.end < 0) || spans.every((span) => span.x > width);
}

function ribbon(pen: Pen, above: Span | null, below: Span | null, middle: number, ink: string, alpha: number): void {
  const one = above ?? below;
  if (!one) return;
  const point = (one.x + one.end) / 2;
  const top = above ?? { x: point, end: point, y: middle },
    bottom = below ?? { x: point, end: point, y: middle };
  const half = (top.y + bottom.y) / 2;
  pen.beginPath();
  pen.moveTo(top.x, top.y);
  pen.bezierCurveTo(top.x, half, bottom.x, half, bottom.x, bottom.y);
  pen.lineTo(bottom.end, bottom.y);
  pen.bezierCurveTo(bottom.end, half, top.end, half, top.end, top.y);
  pen.closePath();
  pen.globalAlpha = alpha;
  pen.fillStyle = ink;
  pen.fill();
  pen.globalAlpha = Math.min(1, alpha * 2);
  pen.strokeStyle = ink;
  pen.lineWidth = 1;
  pen.stroke();
  pen.globalAlpha = 1;
}
