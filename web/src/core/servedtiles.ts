// A tile as the server packs it, and as it is drawn.

import { type Columns, unpack } from "../data/columns";
import type { PackedBands, PackedTile } from "../data/documents";
import type { Range, RowTile, Strip, Tile } from "../data/source";

export const WIDEST = 16384; // pixels that the server answers for
export const MARGIN = 0.25; // of a screen, on either side

export interface Wanted extends Range {
  width: number;
}

// What to ask for: the range in view and a margin, in pixels of the same size.
export function withMargin({ from, to }: Range, width: number, margin = MARGIN): Wanted {
  const more = Math.max(Math.min(Math.ceil(width * margin), Math.floor((WIDEST - width) / 2)), 0);
  const pixel = (to - from) / width;
  return { from: Math.floor(from - more * pixel), to: Math.ceil(to + more * pixel), width: Math.min(width + 2 * more, WIDEST) };
}

const OFF = 0.05; // pixels: edges lie on whole ns, and no eye sees this

// Whether a tile shows a range in pixels of the wanted size, edge on edge.
export function covers(tile: Tile, { from, to }: Range, width: number): boolean {
  const pixel = (to - from) / width;
  const own = (tile.to - tile.from) / tile.width;
  const shift = (from - tile.from) / own;
  return tile.from <= from && tile.to >= to && Math.abs(own / pixel - 1) * width < OFF && Math.abs(shift - Math.round(shift)) < OFF;
}

export async function tileOf(packed: PackedTile, wanted: Wanted): Promise<Tile> {
  const bands = await bandsOf(packed.bands, wanted);
  const boxes = await unpack(packed.boxes);
  if (packed.marks) Object.assign(boxes, await unpack(packed.marks));
  const rows = [...bands].flatMap(([track, own]) =>
    [...own].map(([row, groups]): RowTile => ({ track, row, bands: groups, boxes: boxesOf(boxes, track, row) })),
  );
  const strips = [...(await bandsOf(packed.strips, wanted))].map(([gpu, own]): Strip => ({ gpu, bands: own.get(0) ?? new Map() }));
  return { ...wanted, rows, strips };
}

type Groups = Map<number, Float64Array>;

// Busy ns of each pixel by track, row and group.
async function bandsOf({ runs: packed, busy }: PackedBands, wanted: Wanted): Promise<Map<number, Map<number, Groups>>> {
  const runs = await unpack(packed);
  const { ns } = await unpack(busy);
  const full = lengths(wanted);
  const found = new Map<number, Map<number, Groups>>();
  let used = 0;
  for (let at = 0; at < packed.rows; at++) {
    const groups = within(within(found, runs.track[at], newMap<Groups>), runs.row[at], newMap<Float64Array>);
    const pixels = within(groups, runs.group[at], () => new Float64Array(wanted.width));
    const first = runs.first[at];
    const count = runs.count[at];
    if (runs.full[at]) pixels.set(full.subarray(first, first + count), first);
    else {
      pixels.set(ns.subarray(used, used + count), first);
      used += count;
    }
  }
  return found;
}

// The ns of each pixel: edges lie on whole ns, as `edges` in bands.py puts them.
function lengths({ from, to, width }: Wanted): Float64Array {
  const whole = Math.floor((to - from) / width);
  const rest = to - from - whole * width;
  const edge = (at: number) => whole * at + Math.floor((rest * at) / width);
  return Float64Array.from({ length: width }, (_, at) => edge(at + 1) - edge(at));
}

function newMap<Value>(): Map<number, Value> {
  return new Map();
}

function within<Value>(map: Map<number, Value>, key: number, made: () => Value): Value {
  const held = map.get(key);
  if (held !== undefined) return held;
  const value = made();
  map.set(key, value);
  return value;
}

// Boxes are ordered by lane and row.
function boxesOf(boxes: Columns, track: number, row: number): Columns {
  const before = (at: number, next: number) => boxes.lane[at] < track || (boxes.lane[at] === track && boxes.row[at] < next);
  const from = firstNot(boxes.lane.length, (at) => before(at, row));
  const to = firstNot(boxes.lane.length, (at) => before(at, row + 1));
  return Object.fromEntries(Object.entries(boxes).map(([name, column]) => [name, column.subarray(from, to)]));
}

function firstNot(count: number, holds: (at: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
