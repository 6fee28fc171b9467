// Exact busy time at any zoom: how much of each pixel is covered by at least one interval. Nothing is sampled or left out.
//
// The union of the intervals is kept as disjoint pieces with the busy time before each (prefix sums). The busy time between two
// moments is then a difference of two look-ups, so that a frame costs one look-up per pixel however many events there are.

import type { Range } from "../data/source";

export class Busy {
  readonly count: number;
  readonly total: number;
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  private readonly sum: Float64Array; // busy time before each piece, and after the last

  // Intervals in order of start; they may overlap and touch.
  constructor(start: ArrayLike<number>, end: ArrayLike<number>) {
    const starts = new Float64Array(start.length);
    const ends = new Float64Array(start.length);
    let last = -1;
    for (let at = 0; at < start.length; at++) {
      if (end[at] <= start[at]) continue;
      if (last >= 0 && start[at] <= ends[last]) ends[last] = Math.max(ends[last], end[at]);
      else {
        last += 1;
        starts[last] = start[at];
        ends[last] = end[at];
      }
    }
    this.count = last + 1;
    this.start = starts.slice(0, this.count);
    this.end = ends.slice(0, this.count);
    this.sum = new Float64Array(this.count + 1);
    for (let at = 0; at < this.count; at++) this.sum[at + 1] = this.sum[at] + this.end[at] - this.start[at];
    this.total = this.sum[this.count];
  }

  between(from: number, to: number): number {
    return this.before(to, this.piece(to, 0)) - this.before(from, this.piece(from, 0));
  }

  // The busy share (0 to 1) of each of `width` pixels between two moments, written to `out`.
  shares(from: number, to: number, width: number, out = new Float64Array(width)): Float64Array {
    const pixel = (to - from) / width;
    let piece = this.piece(from, 0);
    let before = this.before(from, piece);
    for (let at = 0; at < width; at++) {
      const time = at === width - 1 ? to : from + pixel * (at + 1);
      piece = this.piece(time, piece);
      const next = this.before(time, piece);
      out[at] = Math.min(Math.max((next - before) / pixel, 0), 1);
      before = next;
    }
    return out;
  }

  // How many pieces begin at or before a moment; `known` is an answer for an earlier one. Steps double, so that a pixel that
  // holds few pieces costs few looks, and one that holds many costs their logarithm.
  private piece(time: number, known: number): number {
    let low = known;
    let step = 1;
    while (low + step <= this.count && this.start[low + step - 1] <= time) {
      low += step;
      step *= 2;
    }
    let high = Math.min(low + step, this.count + 1);
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle - 1] <= time) low = middle;
      else high = middle;
    }
    return low;
  }

  private before(time: number, piece: number): number {
    return piece === 0 ? 0 : this.sum[piece] - Math.max(this.end[piece - 1] - time, 0);
  }
}

// A row of the timeline in bands: of each pixel, how much time each group takes. What a row looks like when its events are too
// small to be boxes, and what minimap and utilisation strip draw.

export interface Intervals {
  start: ArrayLike<number>;
  end: ArrayLike<number>;
  group: ArrayLike<number>;
}

export class Bands {
  readonly groups: number[]; // those that occur, ascending
  private readonly busy: Map<number, Busy>;
  private readonly all: Busy;

  constructor({ start, end, group }: Intervals) {
    const counts = new Map<number, number>();
    for (let at = 0; at < group.length; at++) counts.set(group[at], (counts.get(group[at]) ?? 0) + 1);
    this.groups = [...counts.keys()].sort((a, b) => a - b);
    this.busy = new Map(this.groups.map((each) => [each, busyOf(each, counts.get(each) ?? 0, { start, end, group })]));
    this.all = new Busy(start, end);
  }

  shares(from: number, to: number, width: number): Float64Array {
    return this.all.shares(from, to, width);
  }

  // The share of one group by pixel, where groups do not overlap.
  sharesOf(group: number, from: number, to: number, width: number): Float64Array {
    return this.busy.get(group)?.shares(from, to, width) ?? new Float64Array(width);
  }

  // The share of each group by pixel. Groups that overlap in time are scaled so that together they take what is busy.
  bands(from: number, to: number, width: number): Map<number, Float64Array> {
    const whole = this.shares(from, to, width);
    const parts = new Map(Array.from(this.busy, ([group, busy]) => [group, busy.shares(from, to, width)]));
    for (let at = 0; at < width; at++) {
      let sum = 0;
      for (const part of parts.values()) sum += part[at];
      if (sum > whole[at]) for (const part of parts.values()) part[at] *= whole[at] / sum;
    }
    return parts;
  }

  between(from: number, to: number, group?: number): number {
    return (group === undefined ? this.all : this.busy.get(group))?.between(from, to) ?? 0;
  }
}

// Busy ns of each pixel by group; nothing where there are no bands.
export function pixels(bands: Bands | undefined, { from, to, width }: Range & { width: number }): Map<number, Float64Array> {
  const found = bands?.bands(from, to, width) ?? new Map<number, Float64Array>();
  const pixel = (to - from) / width;
  for (const shares of found.values()) for (let at = 0; at < width; at++) shares[at] *= pixel;
  return found;
}

function busyOf(wanted: number, count: number, { start, end, group }: Intervals): Busy {
  if (count === group.length) return new Busy(start, end);
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  for (let at = 0, next = 0; next < count; at++) {
    if (group[at] !== wanted) continue;
    starts[next] = start[at];
    ends[next] = end[at];
    next += 1;
  }
  return new Busy(starts, ends);
}
