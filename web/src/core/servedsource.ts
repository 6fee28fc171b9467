// The data source of `foretrace serve`: a screenful at a time, whatever the size of the trace.

import { type Columns, firstNot, unpack } from "../data/columns";
import type { Packed, PackedBands, PackedTile, SearchResult } from "../data/documents";
import { Events, type TraceFacts } from "../data/events";
import type { Found, Range, RowTile, Strip, Tile } from "../data/source";
import { Related } from "./related";
import { Source } from "./reportsource";

type Ask = <Answer>(path: string, signal?: AbortSignal) => Promise<Answer>;

// Tiles of one kind of view: the timeline asks for tracks, a minimap for none. Neither overtakes the other.
type Channel = { latest: Latest; tile: Tile | null; tracks: ReadonlySet<number> };

export class ServedSource extends Source {
  readonly first: Promise<void>; // until a tile has come
  private loaded: Promise<Related> | undefined;
  private came = () => {};
  private readonly channels = [0, 1].map((): Channel => ({ latest: new Latest(), tile: null, tracks: new Set() }));

  // `ask` gets a path below that of the trace; `among` are the numbers of the traces that marks compare.
  constructor(
    private readonly ask: Ask,
    private readonly facts: TraceFacts,
    private readonly among: readonly number[] = [],
  ) {
    super();
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

  async search(text: string): Promise<Found> {
    const answer = await this.ask<SearchResult>(`search?q=${encodeURIComponent(text)}`);
    return { count: answer.count, names: new Map(answer.names), events: await unpack(answer.events) };
  }

  protected work(): Promise<Related> {
    this.loaded ??= this.relatedAt("work").catch((problem) => {
      this.loaded = undefined; // the next question asks again
      throw problem;
    });
    return this.loaded;
  }

  protected near(event: number): Promise<Related> {
    return this.relatedAt(`event/${event}`);
  }

  private async relatedAt(path: string): Promise<Related> {
    const { events } = await this.ask<{ events: Packed }>(path);
    return new Related(new Events(this.facts, await unpack(events)));
  }
}

// A tile as the server packs it, and as it is drawn.

const WIDEST = 16384; // pixels that the server answers for
export const MARGIN = 0.25; // of a screen, on either side

type Wanted = Range & { width: number };

// What to ask for: the range in view and a margin, in pixels of the same size.
export function withMargin({ from, to }: Range, width: number, margin = MARGIN): Wanted {
  const more = Math.max(Math.min(Math.ceil(width * margin), Math.floor((WIDEST - width) / 2)), 0);
  const pixel = (to - from) / width;
  return { from: Math.floor(from - more * pixel), to: Math.ceil(to + more * pixel), width: Math.min(width + 2 * more, WIDEST) };
}

const OFF = 0.05; // pixels: edges lie on whole ns, and no eye sees this

// Whether a tile shows a range in pixels of the wanted size, edge on edge.
export function covers(tile: Tile, { from, to }: Range, width: number): boolean {
  const pixel = (to - from) / width;
  const own = (tile.to - tile.from) / tile.width;
  const shift = (from - tile.from) / own;
  return tile.from <= from && tile.to >= to && Math.abs(own / pixel - 1) * width < OFF && Math.abs(shift - Math.round(shift)) < OFF;
}

async function tileOf(packed: PackedTile, wanted: Wanted): Promise<Tile> {
  const bands = await bandsOf(packed.bands, wanted);
  const boxes = await unpack(packed.boxes);
  if (packed.marks) Object.assign(boxes, await unpack(packed.marks));
  const rows = [...bands].flatMap(([track, own]) =>
    [...own].map(([row, groups]): RowTile => ({ track, row, bands: groups, boxes: boxesOf(boxes, track, row) })),
  );
  const strips = [...(await bandsOf(packed.strips, wanted))].map(([gpu, own]): Strip => ({ gpu, bands: own.get(0) ?? new Map() }));
  return { ...wanted, rows, strips };
}

type Groups = Map<number, Float64Array>;

// Busy ns of each pixel by track, row and group.
async function bandsOf({ runs: packed, busy }: PackedBands, wanted: Wanted): Promise<Map<number, Map<number, Groups>>> {
  const runs = await unpack(packed);
  const { ns } = await unpack(busy);
  const full = lengths(wanted);
  const found = new Map<number, Map<number, Groups>>();
  let used = 0;
  for (let at = 0; at < packed.rows; at++) {
    const groups = within(
      within(found, runs.track[at], () => new Map<number, Groups>()),
      runs.row[at],
      (): Groups => new Map(),
    );
    const pixels = within(groups, runs.group[at], () => new Float64Array(wanted.width));
    const first = runs.first[at];
    const count = runs.count[at];
    if (runs.full[at]) pixels.set(full.subarray(first, first + count), first);
    else {
      pixels.set(ns.subarray(used, used + count), first);
      used += count;
    }
  }
  return found;
}

// The ns of each pixel: edges lie on whole ns, as `edges` in bands.py puts them.
function lengths({ from, to, width }: Wanted): Float64Array {
  const whole = Math.floor((to - from) / width);
  const rest = to - from - whole * width;
  const edge = (at: number) => whole * at + Math.floor((rest * at) / width);
  return Float64Array.from({ length: width }, (_, at) => edge(at + 1) - edge(at));
}

function within<Value>(map: Map<number, Value>, key: number, made: () => Value): Value {
  const value = map.get(key) ?? made();
  map.set(key, value);
  return value;
}

function boxesOf(boxes: Columns, track: number, row: number): Columns {
  const until = (next: number) =>
    firstNot(0, boxes.lane.length, (at) => boxes.lane[at] < track || (boxes.lane[at] === track && boxes.row[at] < next));
  const [from, to] = [until(row), until(row + 1)];
  return Object.fromEntries(Object.entries(boxes).map(([name, column]) => [name, column.subarray(from, to)]));
}

// One question at a time: while it is on its way only the latest of those that follow is kept, so that a person who zooms never
// waits for views that are gone.

type Waiting = { begin: () => Promise<void>; drop: () => void };

export class Latest {
  private running = false;
  private waiting: Waiting | null = null;

  // The answer; an AbortError for a question that was overtaken before it was put.
  put<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.waiting?.drop();
      this.waiting = {
        begin: () => question().then(resolve, reject),
        drop: () => reject(new DOMException("a later view was wanted", "AbortError")),
      };
      this.next();
    });
  }

  private next(): void {
    const { waiting } = this;
    if (this.running || !waiting) return;
    this.waiting = null;
    this.running = true;
    waiting.begin().finally(() => {
      this.running = false;
      this.next();
    });
  }
}
