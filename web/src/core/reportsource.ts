// The data source of a report: all of its events are in the page.

import type { Columns } from "../data/columns";
import type { Events } from "../data/events";
import type { DataSource, Found, Range, RangeStats, Tile, Way } from "../data/source";
import { Finder } from "./finding";
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

  async search(text: string): Promise<Found> {
    return this.finder.search(text);
  }

  private async index(): Promise<RangeIndex> {
    return new RangeIndex(this.events, await IdleIndex.of(this.events.facts.idle));
  }
}
