// The frame around the selected event, and arrows from launches to GPU work, with the time in between.

import { timeText } from "../../base/units";
import { queueDelay } from "../../core/delay";
import type { Pen } from "../../core/pen";
import type { Events } from "../../data/events";
import type { Scene } from "./scene";

const HEAD = 4;
const LETTER = 6.7; // of the font of 11 pixels

export function drawArrows(scene: Scene, pen: Pen): void {
  const { selected } = scene;
  const { related, at, trace } = selected;
  if (!related || at < 0) return;
  pen.strokeStyle = scene.context.colours.accent;
  pen.lineWidth = 1.3;
  for (const work of linked(related, at)) arrow(scene, pen, related, work, trace);
  pen.lineWidth = 1;
  if (related.isGpuWork(at)) delayLabel(scene, pen, related, at);
  frame(scene, pen, trace, related, at);
}

// The GPU work to draw arrows to.
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

// Where an event begins on the canvas; false when its track is folded.
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
  pen.fillStyle = colours.back;
  pen.fillRect(x - 2, y - 8, text.length * LETTER + 4, 16);
  pen.globalAlpha = 1;
  pen.fillStyle = colours.accent;
  pen.fillText(text, x, y);
}

function frame(scene: Scene, pen: Pen, trace: number, related: Events, at: number): void {
  outline(scene, pen, trace, related.lane[at], related.row[at], related.start[at], related.length[at]);
}

// A frame around an event, by its place in the trace.
export function outline(scene: Scene, pen: Pen, trace: number, lane: number, row: number, start: number, length: number): void {
  const place = scene.place(trace, lane, row);
  const { zero } = scene.context.traces[trace];
  if (!place) return;
  const left = Math.max(scene.x(start - zero), -3);
  const right = Math.min(scene.x(start + length - zero), scene.width + 3);
  pen.strokeStyle = scene.context.colours.text;
  pen.lineWidth = 2;
  pen.strokeRect(left - 1, place.y - 1, Math.max(right - left, 2) + 2, place.height + 2);
  pen.lineWidth = 1;
}
