// Where the data of a trace come from: what is computed from its events, and a report, whose events are all in the page.

import type { Columns } from "../data/columns";
import type { Events } from "../data/events";
import type { DataSource, Found, Range, RangeStats, Tile, Way } from "../data/source";
import { IdleIndex } from "./idle";
import { RangeIndex } from "./rangestats";
import { Related } from "./related";
import { Tiles } from "./tiles";

export abstract class Source implements DataSource {
  private ranges: Promise<RangeIndex> | undefined;

  abstract tile(range: Range, width: number, tracks: readonly number[], signal?: AbortSignal): Promise<Tile>;
  abstract search(text: string): Promise<Found>;
  protected abstract work(): Promise<Related>; // the GPU work of the trace with its launches
  protected abstract near(event: number): Promise<Related>; // what belongs to an event and what lies beside it

  async details(event: number): Promise<Columns> {
    return (await this.near(event)).details(event);
  }

  async launches(kernel: number): Promise<Columns> {
    return (await this.work()).launches(kernel);
  }

  async neighbour(event: number | null, way: Way, time: number): Promise<number | null> {
    const work = await this.work();
    const at = event === null ? -1 : work.events.find(event);
    const isWork = event === null || (at >= 0 && work.events.isGpuWork(at));
    return (isWork ? work : await this.near(event)).neighbour(event, way, time);
  }

  async rangeStats(range: Range): Promise<RangeStats> {
    const { events } = await this.work();
    this.ranges ??= IdleIndex.of(events.facts.idle).then((idle) => new RangeIndex(events, idle));
    return (await this.ranges).of(range);
  }

  async gpuWork(): Promise<Events> {
    return (await this.work()).events;
  }
}

export class ReportSource extends Source {
  private readonly tiles: Tiles;
  private readonly related: Related;

  constructor(readonly events: Events) {
    super();
    this.tiles = new Tiles(events);
    this.related = new Related(events);
  }

  async tile(range: Range, width: number, tracks: readonly number[]): Promise<Tile> {
    return this.tiles.tile(range, width, tracks);
  }

  async search(text: string): Promise<Found> {
    return searchEvents(this.events, text);
  }

  protected async work(): Promise<Related> {
    return this.related;
  }

  protected async near(): Promise<Related> {
    return this.related;
  }
}

const MOST_FOUND = 5000;

// How many events have a name that contains a text, by name, and the first of them.
export function searchEvents(events: Events, text: string): Found {
  const wanted = new Uint8Array(events.facts.names.length);
  if (text) for (const name of events.facts.namesWith(text)) wanted[name] = 1;
  const names = new Map<number, number>();
  const found: number[] = [];
  for (let at = 0; at < events.count; at++) {
    const name = events.nameNumber[at];
    if (!wanted[name]) continue;
    names.set(name, (names.get(name) ?? 0) + 1);
    found.push(at);
  }
  // numbers alone are sorted quickly: they say which events to look at
  const { start } = events;
  const limit = Float64Array.from(found, (at) => start[at]).sort()[Math.min(MOST_FOUND, found.length) - 1];
  const first = found.filter((at) => start[at] <= limit).sort((a, b) => start[a] - start[b] || a - b);
  return {
    count: found.length,
    names: new Map([...names].sort(([a], [b]) => a - b)),
    events: events.columnsAt(first.slice(0, MOST_FOUND)),
  };
}
