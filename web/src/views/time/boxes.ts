// The events that are wide enough to be told apart: their edges, labels and marks, drawn over the bands.

import { isModule } from "../../base/frames";
import { cutText } from "../../base/units";
import type { Context } from "../../core/context";
import type { Pen } from "../../core/pen";
import type { Matches } from "../../core/searching";
import type { Track } from "../../core/tracks";
import { Events } from "../../data/events";
import type { RowTile } from "../../data/source";
import type { Scene } from "./scene";

const EDGE = "rgb(0 0 0 / 0.28)";
const LABEL_FROM = 28; // pixels that a label needs

const known = new WeakMap<RowTile, Events>();

export function eventsOf(scene: Scene, track: Track, row: RowTile): Events {
  let found = known.get(row);
  if (!found) {
    found = new Events(scene.shown(track).facts, row.boxes);
    known.set(row, found);
  }
  return found;
}

export class Boxes {
  private letter = 0;

  constructor(
    private readonly scene: Scene,
    private readonly pen: Pen,
  ) {}

  private get context(): Context {
    return this.scene.context;
  }

  row(track: Track, row: RowTile, isMatch: Matches | null): void {
    const { pen, scene } = this;
    this.letter ||= pen.measureText("0").width;
    const events = eventsOf(scene, track, row);
    const { zero } = scene.shown(track);
    const y = scene.top(track) + row.row * track.rowHeight;
    const height = track.rowHeight - 2;
    const { from, to } = scene.range;
    const scale = scene.width / (to - from);
    for (let at = 0; at < events.count; at++) {
      const left = (events.start[at] - zero - from) * scale;
      const right = left + events.length[at] * scale;
      if (right < 0 || left > scene.width) continue;
      const x = Math.max(left, -1);
      const width = Math.max(Math.min(right, scene.width + 1) - x, 1);
      const faint = isMatch !== null && !isMatch(events, at);
      pen.globalAlpha = faint ? 0.35 : 1;
      if (events.isAnnotation(at)) this.bracket(events, at, x, y, width, height);
      else this.box(events, at, x, y, width, height, isMatch !== null && !faint);
    }
    pen.globalAlpha = 1;
  }

  private box(events: Events, at: number, x: number, y: number, width: number, height: number, filled: boolean): void {
    const { pen } = this;
    const { colours } = this.context;
    const fill = colours.of(events.group(at));
    if (filled) {
      pen.fillStyle = fill;
      pen.fillRect(x, y, width, height);
    }
    const number = events.mark?.[at] ?? -1,
      mark = number >= 0 ? events.facts.marks[number] : "same";
    drawMark(pen, mark, x, y, width, height, colours.ink(fill));
    if (width > 3) {
      pen.fillStyle = EDGE;
      pen.fillRect(x, y, 1, height);
    }
    if (width > 3 && events.kind(at) === "python_function" && isModule(events.name(at))) {
      pen.fillStyle = colours.of("accent"); // modules are set off from the functions around them
      pen.fillRect(x, y + height - 2, width, 2);
    }
    if (width > LABEL_FROM)
      this.label((mark in SIGNS ? `${SIGNS[mark]} ` : "") + events.label(at), x, y + height / 2, width, colours.ink(fill));
  }

  private bracket(events: Events, at: number, x: number, y: number, width: number, height: number): void {
    const { pen } = this;
    const { colours } = this.context;
    pen.strokeStyle = colours.of("annotation");
    pen.beginPath();
    pen.moveTo(x + 0.5, y + height - 2);
    pen.lineTo(x + 0.5, y + 1.5);
    pen.lineTo(x + width - 0.5, y + 1.5);
    pen.lineTo(x + width - 0.5, y + height - 2);
    pen.stroke();
    if (width > LABEL_FROM) this.label(events.name(at), x, y + height / 2 + 1, width, colours.of("annotation"));
  }

  private label(text: string, x: number, y: number, width: number, colour: string): void {
    const from = Math.max(x, 0);
    const letters = Math.floor((Math.min(x + width, this.scene.width) - from - 6) / this.letter);
    if (letters < 2) return;
    this.pen.fillStyle = colour;
    this.pen.fillText(cutText(text, letters), from + 4, y);
  }
}

// Lines across a kernel that changed, is new or is gone, so that it can be told without colour.

const APART = 6;
export const SIGNS: Record<string, string> = { changed: "≠", new: "+", gone: "−" };

// Slanted for changed, upright for new, crossed for gone. As many lines as there is room for, whatever the trace.
function drawMark(pen: Pen, mark: string, x: number, y: number, width: number, height: number, ink: string): void {
  if (!(mark in SIGNS) || width < 3) return;
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.globalAlpha = 0.35;
  pen.strokeStyle = ink;
  pen.lineWidth = 1;
  pen.beginPath();
  const lean = mark === "new" ? 0 : height;
  for (let at = x - (x % APART) - height; at < x + width; at += APART) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + lean, y);
    if (mark !== "gone") continue;
    pen.moveTo(at, y);
    pen.lineTo(at + lean, y + height);
  }
  pen.stroke();
  pen.restore();
}
