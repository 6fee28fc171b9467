// The data source of `foretrace serve`: a screenful at a time, whatever the size of the trace.

import { type Columns, unpack } from "../data/columns";
import type { Packed, PackedTile, SearchResult } from "../data/documents";
import { Events, type TraceFacts } from "../data/events";
import type { DataSource, Found, Range, RangeStats, Tile, Way } from "../data/source";
import { IdleIndex } from "./idle";
import { Latest } from "./latest";
import { RangeIndex } from "./rangestats";
import { Related } from "./related";
import { covers, MARGIN, tileOf, withMargin } from "./servedtiles";

type Ask = <Answer>(path: string, signal?: AbortSignal) => Promise<Answer>;

interface Listed {
  events: Packed;
}

// The GPU work of the trace with its launches, which ranges and launch order are computed from.
interface Work {
  events: Events;
  related: Related;
  ranges: RangeIndex;
}

// Tiles of one kind of view: the timeline asks for tracks, a minimap for none. Neither overtakes the other.
interface Channel {
  latest: Latest;
  tile: Tile | null;
  tracks: ReadonlySet<number>;
}

export class ServedSource implements DataSource {
  readonly first: Promise<void>; // until a tile has come
  private work: Promise<Work> | undefined;
  private came = () => {};
  private readonly channels = [0, 1].map((): Channel => ({ latest: new Latest(), tile: null, tracks: new Set() }));

  // `ask` gets a path below that of the trace; `among` are the numbers of the traces that marks compare.
  constructor(
    private readonly ask: Ask,
    private readonly facts: TraceFacts,
    private readonly among: readonly number[] = [],
  ) {
    this.first = new Promise((resolve) => {
      this.came = resolve;
    });
  }

  // What is asked while an answer is on its way waits, and is rejected with an AbortError when a later view comes first.
  async tile(range: Range, width: number, tracks: readonly number[], signal?: AbortSignal): Promise<Tile> {
    const channel = this.channels[tracks.length ? 1 : 0];
    const { tile } = channel;
    if (tile && covers(tile, range, width) && tracks.every((each) => channel.tracks.has(each))) return tile;
    return channel.latest.put(async () => {
      const wanted = withMargin(range, width, tracks.length ? MARGIN : 0);
      const { from, to, width: pixels } = wanted;
      const marks = this.among.length > 1 ? `&among=${this.among}` : "";
      const path = `tile?from=${from}&to=${to}&width=${pixels}&tracks=${tracks.join()}${marks}`;
      channel.tile = await tileOf(await this.ask<PackedTile>(path, signal), wanted);
      channel.tracks = new Set(tracks);
      this.came();
      return channel.tile;
    });
  }

  async details(event: number): Promise<Columns> {
    return this.columns(`event/${event}`);
  }

  async launches(kernel: number): Promise<Columns> {
    return (await this.loadWork()).related.launches(kernel);
  }

  async neighbour(event: number | null, way: Way, time: number): Promise<number | null> {
    const { events, related } = await this.loadWork();
    const at = event === null ? -1 : events.find(event);
    if (event === null || (at >= 0 && events.isGpuWork(at))) return related.neighbour(event, way, time);
    return new Related(new Events(this.facts, await this.details(event))).neighbour(event, way, time);
  }

  async rangeStats(range: Range): Promise<RangeStats> {
    return (await this.loadWork()).ranges.of(range);
  }

  async search(text: string): Promise<Found> {
    const answer = await this.ask<SearchResult>(`search?q=${encodeURIComponent(text)}`);
    return { count: answer.count, names: new Map(answer.names), events: await unpack(answer.events) };
  }

  private loadWork(): Promise<Work> {
    this.work ??= this.makeWork().catch((problem) => {
      this.work = undefined; // the next question asks again
      throw problem;
    });
    return this.work;
  }

  private async makeWork(): Promise<Work> {
    const events = new Events(this.facts, await this.columns("work"));
    return { events, related: new Related(events), ranges: new RangeIndex(events, await IdleIndex.of(this.facts.idle)) };
  }

  private async columns(path: string): Promise<Columns> {
    return unpack((await this.ask<Listed>(path)).events);
  }
}
