// The data source of `foretrace serve`: a screenful at a time, whatever the size of the trace.

import { type Columns, unpack } from "../data/columns";
import type { IdleTime, Packed, PackedTile, RangeNumbers, SearchResult } from "../data/documents";
import type { DataSource, Found, Range, RangeStats, Tile, Way } from "../data/source";
import { IdleIndex } from "./idle";
import { Latest } from "./latest";
import { covers, MARGIN, tileOf, withMargin } from "./servedtiles";

type Ask = <Answer>(path: string, signal?: AbortSignal) => Promise<Answer>;

interface Listed {
  events: Packed;
}

// Tiles of one kind of view: the timeline asks for tracks, a minimap for none. Neither overtakes the other.
interface Channel {
  latest: Latest;
  tile: Tile | null;
  tracks: ReadonlySet<number>;
}

export class ServedSource implements DataSource {
  readonly first: Promise<void>; // until a tile has come
  private idle: Promise<IdleIndex> | undefined;
  private came = () => {};
  private readonly channels = [0, 1].map((): Channel => ({ latest: new Latest(), tile: null, tracks: new Set() }));

  // `ask` gets a path below that of the trace; `among` are the numbers of the traces that marks compare.
  constructor(
    private readonly ask: Ask,
    private readonly among: readonly number[] = [],
    private readonly idleTime: IdleTime | null = null,
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
    return this.columns(`kernel/${kernel}`);
  }

  async neighbour(event: number | null, way: Way, time: number): Promise<number | null> {
    const from = event === null ? "" : `&event=${event}`;
    const answer = await this.ask<{ event: number | null }>(`neighbour?way=${way}&time=${Math.round(time)}${from}`);
    return answer.event;
  }

  async rangeStats(range: Range): Promise<RangeStats> {
    const from = Math.round(range.from);
    const to = Math.round(range.to);
    const { busy_ns, bytes_ns, flops_ns, ...found } = await this.ask<RangeNumbers>(`range?from=${from}&to=${to}`);
    const busyNs = found.gpus ? busy_ns : null;
    this.idle ??= IdleIndex.of(this.idleTime);
    const idle = busyNs === null ? [] : (await this.idle).within({ from, to }, found.gpus * (to - from) - busyNs);
    return { ...range, ...found, busyNs, idle, costedNs: { bytes: bytes_ns, flops: flops_ns } };
  }

  async search(text: string): Promise<Found> {
    const answer = await this.ask<SearchResult>(`search?q=${encodeURIComponent(text)}`);
    return { count: answer.count, names: new Map(answer.names), events: await unpack(answer.events) };
  }

  private async columns(path: string): Promise<Columns> {
    return unpack((await this.ask<Listed>(path)).events);
  }
}
