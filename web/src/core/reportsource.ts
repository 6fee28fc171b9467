// The data source of a report: all of its events are in the page.

import type { Columns } from "../data/columns";
import type { Events } from "../data/events";
import type { DataSource, Found, Range, RangeStats, Tile, Way } from "../data/source";
import { IdleIndex } from "./idle";
import { RangeIndex } from "./rangestats";
import { Related } from "./related";
import { Tiles } from "./tiles";

export class ReportSource implements DataSource {
  private readonly tiles: Tiles;
  private readonly related: Related;
  private readonly finder: Finder;
  private ranges: Promise<RangeIndex> | undefined;

  constructor(readonly events: Events) {
    this.tiles = new Tiles(events);
    this.related = new Related(events);
    this.finder = new Finder(events);
  }

  async tile(range: Range, width: number, tracks: readonly number[]): Promise<Tile> {
    return this.tiles.tile(range, width, tracks);
  }

  async details(event: number): Promise<Columns> {
    return this.related.details(event);
  }

  async launches(kernel: number): Promise<Columns> {
    return this.related.launches(kernel);
  }

  async neighbour(event: number | null, way: Way, time: number): Promise<number | null> {
    return this.related.neighbour(event, way, time);
  }

  async rangeStats(range: Range): Promise<RangeStats> {
    this.ranges ??= this.index();
    return (await this.ranges).of(range);
  }

  async gpuWork(): Promise<Events> {
    return this.events;
  }

  async search(text: string): Promise<Found> {
    return this.finder.search(text);
  }

  private async index(): Promise<RangeIndex> {
    return new RangeIndex(this.events, await IdleIndex.of(this.events.facts.idle));
  }
}

// Search over the names of events.

const MOST_FOUND = 5000;

export class Finder {
  constructor(private readonly events: Events) {}

  // How many events have a name that contains a text, by name, and the first of them.
  search(text: string): Found {
    const { events } = this;
    const wanted = new Uint8Array(events.facts.names.length);
    if (text) for (const name of events.facts.namesWith(text)) wanted[name] = 1;
    const counts = new Int32Array(wanted.length);
    const found = new Int32Array(events.count);
    let count = 0;
    for (let at = 0; at < events.count; at++) {
      const name = events.nameNumber[at];
      if (!wanted[name]) continue;
      counts[name] += 1;
      found[count++] = at;
    }
    const names = new Map(Array.from(counts, (of, name): [number, number] => [name, of]).filter(([, of]) => of));
    return { count, names, events: events.columnsAt(this.earliest(found.subarray(0, count))) };
  }

  // The first of these in order of time. Numbers alone are sorted quickly: they say which ones to look at.
  private earliest(found: Int32Array): number[] {
    const { start } = this.events;
    const times = new Float64Array(found.length);
    found.forEach((at, place) => {
      times[place] = start[at];
    });
    times.sort();
    const limit = times[Math.min(MOST_FOUND, times.length) - 1];
    const first = [...found.filter((at) => start[at] <= limit)];
    return first.sort((a, b) => start[a] - start[b] || a - b).slice(0, MOST_FOUND);
  }
}
