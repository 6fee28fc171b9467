// What is live at each moment of a history by group, and the allocations that are drawn one by one.

import { type Columns, firstNot, unpack } from "../data/columns";
import type { DrawnPart, LiveGroups } from "../data/documents";

export type Axis = "event" | "time";

// A band at one moment: an allocation, or (box -1) all smaller ones of a group together.
export interface Band {
  group: number;
  box: number;
  from: number; // bytes below it
  bytes: number;
  count: number;
}

export class Grouping {
  readonly names: string[];
  private readonly boxes: number[][]; // of each group, in order of their start

  constructor(
    readonly groups: LiveGroups,
    private readonly held: Columns,
    private readonly of: Columns, // the boxes of the page
  ) {
    this.names = groups.names;
    this.boxes = this.names.map(() => []);
    of[groups.by].forEach((group, box) => {
      this.boxes[group].push(box);
    });
  }

  bytes(group: number, point: number): number {
    return this.held[`bytes${group}`][point];
  }

  count(group: number, point: number): number {
    return this.held[`count${group}`][point];
  }

  // From below: the allocations of each group in order of their start, then its smaller ones.
  bands(point: number, event: number): Band[] {
    const { start, end, size } = this.of,
      bands: Band[] = [];
    let from = 0;
    for (let group = 0; group < this.names.length; group++) {
      let bytes = this.bytes(group, point),
        count = this.count(group, point);
      if (!count) continue;
      for (const box of this.boxes[group]) {
        if (start[box] > event) break;
        if (end[box] <= event) continue;
        bands.push({ group, box, from, bytes: size[box], count: 1 });
        from += size[box];
        bytes -= size[box];
        count -= 1;
      }
      if (count) bands.push({ group, box: -1, from, bytes, count });
      from += bytes;
    }
    return bands;
  }
}

export class LiveStack {
  readonly length: number;

  constructor(
    readonly points: Columns,
    readonly boxes: Columns,
  ) {
    this.length = points.event.length;
  }

  // The last point at or before a value of an axis; the first where there is none.
  place(axis: Axis, value: number): number {
    const values = this.points[axis];
    return Math.max(firstNot(0, values.length, (at) => values[at] <= value) - 1, 0);
  }

  // Of each pixel between two values the point with the most live bytes; without one of its own, what still holds.
  pixels(axis: Axis, from: number, to: number, width: number): Int32Array {
    const values = this.points[axis],
      { live } = this.points,
      found = new Int32Array(width);
    let next = values[0] >= from ? 0 : this.place(axis, from) + (values[this.place(axis, from)] < from ? 1 : 0);
    for (let pixel = 0; pixel < width; pixel++) {
      const end = from + ((to - from) * (pixel + 1)) / width,
        last = pixel === width - 1;
      let most = -1;
      for (; next < values.length && (values[next] < end || (last && values[next] <= end)); next++) {
        if (most < 0 || live[next] > live[most]) most = next;
      }
      found[pixel] = most >= 0 ? most : Math.max(next - 1, 0);
    }
    return found;
  }

  bandsAt(grouping: Grouping, point: number): Band[] {
    return grouping.bands(point, this.points.event[point]);
  }

  liveAt(event: number): number[] {
    const { start, end, size } = this.boxes;
    const found = Array.from(size.keys()).filter((box) => start[box] <= event && event < end[box]);
    return found.sort((a, b) => size[b] - size[a]);
  }
}

export interface Part {
  stack: LiveStack;
  groupings: Grouping[];
  frames: Columns;
  drawn: DrawnPart;
}

export async function loadPart(drawn: DrawnPart, groups: readonly LiveGroups[]): Promise<Part> {
  const [points, boxes, frames] = await Promise.all([drawn.points, drawn.boxes, drawn.stacks.boxes].map(unpack));
  const held = await Promise.all(drawn.held.map(unpack));
  const groupings = groups.map((each, at) => new Grouping(each, held[at], boxes));
  return { stack: new LiveStack(points, boxes), groupings, frames, drawn };
}
