// Ribbons between the GPU tracks of two traces that follow each other: from changed work to what stands in its place. Work that
// is gone ends in a point, new work begins in one. What is selected is drawn strongly, also where it is the same.

import { type Context, shared } from "../../core/context";
import type { Joins, Place } from "../../core/joins";
import type { Pen } from "../../core/pen";
import type { Range } from "../../data/source";
import type { Scene } from "./scene";

// Where things are on screen: the middle of a shared time, and the GPU tracks of a trace; null where these are not in view.
export interface Screen {
  left: number;
  right: number;
  x(time: number): number;
  gpu(trace: number): { top: number; bottom: number } | null;
}

// The GPU tracks of a trace that are not pinned lie together.
export function screenOf(scene: Scene): Screen {
  const gpu = (trace: number) => {
    const own = scene.layout.moving.filter((track) => track.trace === trace && scene.isGpu(track));
    const last = own.at(-1);
    return last ? { top: scene.top(own[0]), bottom: scene.top(last) + last.height } : null;
  };
  return { left: 0, right: scene.width, x: (time) => scene.x(time), gpu };
}

interface Span {
  x: number;
  end: number;
  y: number;
}

export function drawJoins(pen: Pen, context: Context, screen: Screen): void {
  for (const joins of context.joins) {
    if (joins.pair.b !== joins.pair.a + 1) continue;
    const above = screen.gpu(joins.pair.a),
      below = screen.gpu(joins.pair.b);
    if (!above || !below || below.top <= above.bottom) continue;
    drawPair(pen, context, joins, screen, above.bottom, below.top);
  }
}

function drawPair(pen: Pen, context: Context, joins: Joins, screen: Screen, top: number, bottom: number): void {
  const { traces, colours } = context;
  const chosen = chosenPlace(context, joins);
  const ends = (place: Place): [Span | null, Span | null] => {
    const span = (side: 0 | 1, y: number): Span | null => {
      const part = place.sides[side];
      if (!part) return null;
      const { from, to } = shared(traces[side ? joins.pair.b : joins.pair.a], part);
      const x = screen.x(from);
      return { x, end: Math.max(screen.x(to), x + 1), y };
    };
    return [span(0, top), span(1, bottom)];
  };
  pen.save();
  pen.beginPath();
  pen.rect(screen.left, top, screen.right - screen.left, bottom - top);
  pen.clip();
  const drawn = new Set<string>(); // drawing depends on pixels, not on events
  for (const place of joins.places) {
    if (place === chosen || !joins.changed(place)) continue;
    const [above, below] = ends(place);
    if (outside(above, below, screen)) continue;
    const here = [above, below].map((span) => span && `${Math.round(span.x)} ${Math.round(span.end)}`).join();
    if (drawn.has(here)) continue;
    drawn.add(here);
    ribbon(pen, above, below, (top + bottom) / 2, colours.faint, 0.3);
  }
  if (chosen) ribbon(pen, ...ends(chosen), (top + bottom) / 2, colours.accent, 0.6);
  pen.restore();
}

// A place is selected by its range, or by one of its events.
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

function outside(above: Span | null, below: Span | null, { left, right }: Screen): boolean {
  const spans = [above, below].filter((span) => span !== null);
  return spans.every((span) => span.end < left) || spans.every((span) => span.x > right);
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
