// The tiles of a report: what is drawn of each row, made from the columns in the page. A row is prepared when it is first seen,
// and its bands and boxes are computed when they are read, so that a frame costs what it shows.

import type { Events, Stretch } from "../data/events";
import type { Range, RowTile, Strip, Tile } from "../data/source";
import { Bands, pixels } from "./busy";

const BLOCK = 64; // events whose longest is known, so that many short ones are passed over at once

export class Tiles {
  private readonly rows: Row[];
  private readonly gpus: Gpu[];

  constructor(private readonly events: Events) {
    this.rows = events.stretches.map((stretch) => new Row(events, stretch));
    const { lanes } = events.facts;
    const numbers = new Set(lanes.map((lane) => lane.gpu_number ?? -1).filter((number) => number >= 0));
    const on = (number: number) => this.rows.filter(({ stretch }) => lanes[stretch.lane].gpu_number === number);
    this.gpus = [...numbers].map((number) => new Gpu(events, number, on(number)));
  }

  tile(range: Range, width: number, tracks: readonly number[]): Tile {
    const wanted = new Set(tracks);
    const rows = this.rows.filter(({ stretch }) => wanted.has(stretch.lane));
    return {
      ...range,
      width,
      rows: rows.map((row) => this.rowTile(row, range, width)),
      strips: this.gpus.map((gpu) => strip(gpu, range, width)),
    };
  }

  private rowTile(row: Row, range: Range, width: number): RowTile {
    const held: { bands?: RowTile["bands"]; boxes?: RowTile["boxes"] } = {},
      { events } = this;
    return {
      track: row.stretch.lane,
      row: row.stretch.row,
      get bands() {
        held.bands ??= pixels(row.bands, { ...range, width });
        return held.bands;
      },
      get boxes() {
        held.boxes ??= events.columnsAt(row.wide(range, (range.to - range.from) / width));
        return held.boxes;
      },
    };
  }
}

function strip(gpu: Gpu, range: Range, width: number): Strip {
  let held: Strip["bands"] | undefined;
  return {
    gpu: gpu.number,
    get bands() {
      held ??= pixels(gpu.bands, { ...range, width });
      return held;
    },
  };
}

// Intervals in order of start, none of which overlaps another: each moment belongs to what began first. Their groups then add up
// to the busy time.
function apart(start: Float64Array, end: Float64Array, group: Int16Array): Bands {
  const begins = start.slice();
  let reach = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < begins.length; at++) {
    begins[at] = Math.min(Math.max(begins[at], reach), end[at]);
    reach = Math.max(reach, end[at]);
  }
  return new Bands({ start: begins, end, group });
}

class Row {
  private made: Bands | undefined;
  private readonly longest: Float64Array; // of each block

  constructor(
    private readonly events: Events,
    readonly stretch: Stretch,
  ) {
    const { from, to } = stretch;
    this.longest = new Float64Array(Math.ceil((to - from) / BLOCK));
    for (let at = from; at < to; at++) {
      const block = Math.floor((at - from) / BLOCK);
      this.longest[block] = Math.max(this.longest[block], events.length[at]);
    }
  }

  get bands(): Bands {
    if (this.made) return this.made;
    const { from, to } = this.stretch;
    const { facts, start, length, case: kernel, kindNumber, nameNumber } = this.events;
    const end = new Float64Array(to - from);
    const group = new Int16Array(to - from);
    for (let at = from; at < to; at++) {
      end[at - from] = start[at] + length[at];
      group[at - from] = facts.groupNumber(kernel[at], kindNumber[at], nameNumber[at]);
    }
    this.made = apart(start.slice(from, to), end, group);
    return this.made;
  }

  wide({ from, to }: Range, least: number): number[] {
    const { stretch, events } = this;
    const found: number[] = [];
    for (let at = events.firstNear(stretch, from); at < stretch.to && events.start[at] <= to; at++) {
      const inside = at - stretch.from;
      if (inside % BLOCK === 0 && this.longest[inside / BLOCK] < least) at += BLOCK - 1;
      else if (events.length[at] >= least && events.start[at] + events.length[at] >= from) found.push(at);
    }
    return found;
  }
}

class Gpu {
  private made: Bands | undefined;

  constructor(
    private readonly events: Events,
    readonly number: number,
    private readonly rows: Row[],
  ) {}

  get bands(): Bands {
    if (this.made) return this.made;
    const { events } = this;
    const work: number[] = [];
    for (const { stretch } of this.rows) {
      for (let at = stretch.from; at < stretch.to; at++) if (events.isGpuWork(at)) work.push(at);
    }
    work.sort((a, b) => events.start[a] - events.start[b]);
    const end = Float64Array.from(work, (at) => events.start[at] + events.length[at]);
    const group = Int16Array.from(work, (at) => events.groupNumber(at));
    const start = Float64Array.from(work, (at) => events.start[at]);
    this.made = apart(start, end, group);
    return this.made;
  }
}
