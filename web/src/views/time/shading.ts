// Ranges over the tracks: the selected one with its length, and those of the selected finding; times that M marked.

import { cutText, timeText } from "../../base/units";
import type { Pen } from "../../core/pen";
import { insightOf } from "../../core/places";
import type { Track } from "../../core/tracks";
import type { Range } from "../../data/source";
import type { Scene } from "./scene";

const LEAST = 1.5; // pixels: a short gap is still seen
const EDGED = 8; // pixels: less has no room for lines at its ends

export function drawShades(scene: Scene, pen: Pen): void {
  const { selection } = scene.context.store.state;
  const { colours } = scene.context;
  if (selection?.kind === "range") shade(scene, pen, selection.range, 0, scene.height, colours.of("accent"));
  if (selection?.kind === "finding") drawFinding(scene, pen, selection.trace, selection.rule);
}

function drawFinding(scene: Scene, pen: Pen, trace: number, rule: string): void {
  const shown = scene.context.traces[trace];
  const found = insightOf(shown, rule)?.place;
  if (!found) return;
  const { colours } = scene.context;
  const gpu = scene.visible().filter((track) => track.trace === trace && scene.isGpu(track));
  const gpuOf = (track: Track) => (track.gpu >= 0 ? track.gpu : shown.facts.lanes[track.lane].gpu_number);
  const near = ([from, to]: readonly number[]) => to - shown.zero >= scene.range.from && from - shown.zero <= scene.range.to;
  const each = (range: readonly number[], colour: string, number: number | null) => {
    for (const track of gpu.filter((one) => number === null || number === gpuOf(one))) {
      const own = { from: range[0] - shown.zero, to: range[1] - shown.zero };
      shade(scene, pen, own, scene.top(track), scene.top(track) + track.height, colour);
    }
  };
  for (const gap of found.shades.filter(near)) each(gap, colours.of("warn"), gap[2] ?? null);
  for (const [, from, to] of found.events.filter(([, ...range]) => near(range))) each([from, to], colours.of("accent"), null);
}

function shade(scene: Scene, pen: Pen, { from, to }: Range, top: number, bottom: number, colour: string): void {
  const left = Math.max(scene.x(from), -2);
  const right = Math.min(scene.x(to), scene.width + 2);
  if (right < 0 || left > scene.width) return;
  const width = Math.max(right - left, LEAST);
  pen.fillStyle = colour;
  pen.globalAlpha = width > EDGED ? 0.16 : 0.4;
  pen.fillRect(left, top, width, bottom - top);
  pen.globalAlpha = 0.8;
  for (const x of width > EDGED ? [left, left + width - 1] : []) pen.fillRect(x, top, 1, bottom - top);
  pen.globalAlpha = 1;
}

const NOTE = 16; // pixels high
const NOTE_LETTERS = 60;

// Notes at the foot of the tracks, one below the other where they would overlap.
export function drawNotes(scene: Scene, pen: Pen): void {
  const { colours, store } = scene.context;
  const ends: number[] = []; // of the last note in each line
  for (const note of store.state.notes) {
    const text = cutText(note.text, NOTE_LETTERS),
      wide = text.length * 6.7 + 8;
    const x = Math.min(Math.max(scene.x(note.from), 0), Math.max(scene.width - wide, 0));
    if (scene.x(note.to) < 0 || scene.x(note.from) > scene.width) continue;
    shade(scene, pen, note, 0, scene.height, colours.of("warn"));
    const free = ends.findIndex((end) => end < x),
      line = free < 0 ? ends.length : free;
    ends[line] = x + wide + 4;
    const y = scene.height - NOTE * (line + 1);
    pen.fillStyle = colours.of("back");
    pen.fillRect(x, y, wide, NOTE - 1);
    pen.fillStyle = colours.of("text");
    pen.fillText(text, x + 4, y + NOTE / 2);
  }
}

export function drawMarks(scene: Scene, pen: Pen): void {
  const { colours, store } = scene.context;
  pen.strokeStyle = colours.of("note");
  pen.setLineDash([4, 3]);
  pen.beginPath();
  for (const time of store.state.marks) {
    const x = Math.round(scene.x(time)) + 0.5;
    pen.moveTo(x, 0);
    pen.lineTo(x, scene.height);
  }
  pen.stroke();
  pen.setLineDash([]);
}

export function drawOnRuler(scene: Scene, pen: Pen, height: number): void {
  const { colours, store } = scene.context;
  const { selection, marks } = store.state;
  pen.fillStyle = colours.of("note");
  for (const x of marks.map((time) => scene.x(time))) {
    if (x < -9 || x > scene.width + 9) continue;
    pen.beginPath();
    pen.moveTo(x, height);
    pen.lineTo(x - 6, height - 9);
    pen.lineTo(x + 6, height - 9);
    pen.fill();
  }
  if (selection?.kind !== "range") return;
  const [left, right] = [Math.max(scene.x(selection.range.from), 0), Math.min(scene.x(selection.range.to), scene.width)];
  pen.fillStyle = colours.of("accent");
  if (left <= right) pen.fillRect(left, height - 3, Math.max(right - left, 1), 3);
}

export interface RulerText {
  x: number;
  text: string;
  kind: "tick" | "mark" | "range";
}

// The time from each mark to the next, and the length of the selected range.
export function rangeTexts(scene: Scene): RulerText[] {
  const { selection, marks } = scene.context.store.state;
  const texts: RulerText[] = marks
    .slice(1)
    .map((time, at) => ({ x: scene.x(time) + 8, text: `+ ${timeText(time - marks[at])}`, kind: "mark" }));
  if (selection?.kind === "range") {
    const { from, to } = selection.range;
    const text = timeText(to - from);
    const [left, right] = [Math.max(scene.x(from), 0), Math.min(scene.x(to), scene.width)];
    const x = Math.min(Math.max((left + right) / 2 - text.length * 4, 0), scene.width - text.length * 8);
    if (left <= right) texts.push({ x, text, kind: "range" });
  }
  return texts.filter(({ x }) => x > -100 && x < scene.width);
}
