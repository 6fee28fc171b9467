// The GPU work that a filter or a search leaves, as bands: it is seen at any zoom, however short its kernels are.

import { grouped } from "../data/columns";
import type { Events } from "../data/events";
import type { Tile } from "../data/source";
import { Bands, pixels } from "./busy";
import type { Matches } from "./searching";

export class ChosenWork {
  private readonly strips: Map<string, Bands>; // by GPU
  private readonly rows: Map<string, Bands>; // by lane and row

  constructor(events: Events, isMatch: Matches) {
    const chosen: number[] = [];
    for (let at = 0; at < events.count; at++) if (events.isGpuWork(at) && isMatch(events, at)) chosen.push(at);
    chosen.sort((a, b) => events.start[a] - events.start[b]);
    this.strips = bandsBy(events, chosen, (at) => String(events.facts.lanes[events.lane[at]].gpu_number));
    this.rows = bandsBy(events, chosen, (at) => rowKey(events.lane[at], events.row[at]));
  }

  strip(gpu: number, tile: Tile): Map<number, Float64Array> {
    return pixels(this.strips.get(String(gpu)), tile);
  }
  row(lane: number, row: number, tile: Tile): Map<number, Float64Array> {
    return pixels(this.rows.get(rowKey(lane, row)), tile);
  }
}

function rowKey(lane: number, row: number): string {
  return `${lane} ${row}`;
}

function bandsBy(events: Events, chosen: readonly number[], key: (at: number) => string): Map<string, Bands> {
  return new Map(
    Array.from(grouped(chosen, key), ([name, own]) => {
      const start = Float64Array.from(own, (at) => events.start[at]);
      const end = Float64Array.from(own, (at) => events.start[at] + events.length[at]);
      return [name, new Bands({ start, end, group: own.map((at) => events.groupNumber(at)) })];
    }),
  );
}
