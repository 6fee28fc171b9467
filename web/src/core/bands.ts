// A row of the timeline in bands: of each pixel, how much time each group takes. What a row looks like when its events are too
// small to be boxes, and what minimap and utilisation strip draw.

import { Busy } from "./busy";

// Intervals in order of start, each with the number of its group.
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

  // The busy share of each pixel, whatever the group.
  shares(from: number, to: number, width: number): Float64Array {
    return this.all.shares(from, to, width);
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

  // Busy time of one group, or of all, between two moments.
  between(from: number, to: number, group?: number): number {
    return (group === undefined ? this.all : this.busy.get(group))?.between(from, to) ?? 0;
  }
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
