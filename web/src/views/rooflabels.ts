// Labels of a roofline that lie neither on each other nor, where there is room, on the dots.

import { makeIn } from "../base/dom";
import type { Dot } from "../core/roofplot";
import { type Disc, LEFT, RIGHT } from "./roofdots";

export const TOP = 12,
  BOTTOM = 40,
  LETTER = 6.2; // pixels of a letter of a label, about
const LABELLED = 6; // kernels that are named in the plot
const LONGEST = 26; // letters of a name
const LINE = 13; // pixels from one label to the next

export interface Label {
  x: number;
  y: number;
  width: number;
}

export interface Room {
  svg: SVGElement;
  width: number;
  height: number;
}

// Above its line, at the right end or where no dot is in the way.
export function peakLabel(left: number, right: number, y: number, width: number, discs: readonly Disc[], taken: Label[]): Label {
  const places = [0, 0.3, 0.6, 1].map((part) => ({ x: right - width - (right - width - left) * part, y: y - 5, width }));
  const free = (label: Label) => !taken.some((other) => overlap(label, other)) && !discs.some((disc) => hits(label, disc));
  const found = places.find(free) ?? places[0];
  while (taken.some((other) => overlap(found, other))) found.y += LINE;
  taken.push(found);
  return found;
}

function overlap(one: Label, other: Label): boolean {
  return Math.abs(one.y - other.y) < LINE && one.x < other.x + other.width && other.x < one.x + one.width;
}

// The kernels of most time by name, where there is room; a line leads to a name that is further away.
export function names(room: Room, dots: readonly Dot[], discs: readonly Disc[], taken: Label[]): SVGElement[] {
  const { svg } = room,
    named = new Set<string>();
  return dots.flatMap(({ kernel: { short } }, at) => {
    const text = short.length > LONGEST ? `${short.slice(0, LONGEST - 1)}…` : short,
      disc = discs[at];
    const free = (label: Label) =>
      inside(room, label) && !taken.some((other) => overlap(label, other)) && !discs.some((each) => hits(label, each));
    if (named.size === LABELLED || named.has(text)) return [];
    named.add(text);
    const label = beside(disc, text.length * LETTER).find(free);
    if (!label) return [];
    taken.push(label);
    const far = Math.abs(label.y - 4 - disc.y) > 1,
      to = label.x > disc.x ? label.x - 2 : label.x + label.width + 2;
    return [
      far ? makeIn(svg, "path", { class: "leader", d: `M${disc.x} ${disc.y}L${to} ${label.y - 4}` }) : null,
      makeIn(svg, "text", { class: "label name", x: label.x, y: label.y }, text),
    ].filter((each) => each !== null);
  });
}

// Right and left of a dot, then ever further below and above.
function beside({ x, y, r }: Disc, width: number): Label[] {
  return [0, 20, -20, 36, -36, 52, 68, 84, 100].flatMap((down) => {
    const away = r + (down ? 14 : 4);
    return [
      { x: x + away, y: y + 4 + down, width },
      { x: x - away - width, y: y + 4 + down, width },
    ];
  });
}

function inside({ width, height }: Room, label: Label): boolean {
  return label.x > LEFT && label.x + label.width < width - RIGHT && label.y > TOP + LINE && label.y < height - BOTTOM;
}

function hits(label: Label, { x, y, r }: Disc): boolean {
  return label.x < x + r && x - r < label.x + label.width && label.y - LINE + 4 < y + r && y - r < label.y + 2;
}
