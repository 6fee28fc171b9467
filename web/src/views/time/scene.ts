// What the parts of the timeline share: the size, the range in view, where tracks lie, and the latest tiles.

import { ChosenWork } from "../../core/chosenwork";
import type { Context, Shown } from "../../core/context";
import { chosen, namesWork } from "../../core/flame";
import { allowed, home, padded } from "../../core/moving";
import { insightOf } from "../../core/places";
import { type Matches, matches } from "../../core/searching";
import { type Layout, layOut, type Track } from "../../core/tracks";
import { Events } from "../../data/events";
import type { Range, RowTile, Tile } from "../../data/source";

const NARROW = 700; // below this many pixels names lie above their tracks
export const NAME_HEIGHT = 16;

export class Scene {
  width = 0; // of the canvas
  height = 0;
  ratio = 1; // pixels of the screen in one of the page
  scroll = 0;
  layout: Layout;
  clicked = false; // whether the selection is about to change by a click on the canvas
  opened = ""; // the key of a track that is about to be opened
  pointer: { x: number; y: number } | null = null;
  matches: (Matches | null)[];
  chosen: (ChosenWork | null)[] = []; // the work that a filter or a search leaves
  readonly selected: Selected;
  readonly tiles: (Tile | null)[];
  private readonly asked: string[] = [];
  private works: { filter: string; of: (Set<number> | null)[] } = { filter: "", of: [] }; // by trace, of a path
  private waiting = 0;
  private readonly painters: (() => void)[] = [];

  constructor(readonly context: Context) {
    this.tiles = context.traces.map(() => null);
    this.matches = context.traces.map(() => null);
    this.selected = new Selected(context, () => this.redraw());
    this.layout = layOut(context.traces, context.store.state);
  }

  get range(): Range {
    return this.context.store.state.view ?? padded(home(this.context), 0.01);
  }
  get narrow(): boolean {
    return window.innerWidth < NARROW;
  }

  arrange(): void {
    this.layout = layOut(this.context.traces, this.context.store.state, this.narrow ? NAME_HEIGHT : 0);
  }

  look(): void {
    const { traces, store } = this.context;
    if (this.works.filter !== store.state.filter) this.loadWorks(store.state.filter);
    this.matches = traces.map((trace, at) => matches(trace, store.state, this.works.of[at]));
    this.choose();
  }

  // What a filter or a search leaves is drawn in full over the rest; a server sends the GPU work first.
  private async choose(): Promise<void> {
    const asked = this.matches;
    this.chosen = asked.map(() => null);
    const found = await Promise.all(
      this.context.traces.map(async ({ source }, at) => {
        const isMatch = asked[at];
        return isMatch && new ChosenWork(await source.gpuWork(), isMatch);
      }),
    ).catch(() => []);
    if (asked !== this.matches) return;
    this.chosen = found;
    this.redraw();
  }

  // The work of a box of the flame graph is known a moment later.
  private async loadWorks(filter: string): Promise<void> {
    this.works = { filter, of: [] };
    if (!namesWork(filter)) return;
    const of = await Promise.all(this.context.traces.map((trace) => chosen(trace, filter)));
    if (this.works.filter !== filter) return;
    this.works = { filter, of };
    this.look();
    this.redraw();
  }

  move(range: Range): void {
    this.context.store.set({ view: allowed(range, this.context.traces) });
  }

  x(time: number): number {
    const { from, to } = this.range;
    return ((time - from) / (to - from)) * this.width;
  }
  timeAt(x: number): number {
    const { from, to } = this.range;
    return from + (x / this.width) * (to - from);
  }

  top(track: Track): number {
    return track.pinned ? track.top : track.top + this.layout.pinnedHeight - this.scroll;
  }

  // The tracks in view, pinned ones last: they are drawn over the others.
  visible(): Track[] {
    const near = (track: Track) => this.top(track) < this.height && this.top(track) + track.height > 0;
    return [...this.layout.moving.filter(near), ...this.layout.pinned];
  }

  // Where the row of an event lies; null when its track is folded.
  place(trace: number, lane: number, row: number): { y: number; height: number } | null {
    const own = ({ trace: each, lane: number }: Track) => each === trace && number === lane;
    const track = this.layout.pinned.find(own) ?? this.layout.moving.find(own);
    return track ? { y: this.top(track) + row * track.rowHeight, height: track.rowHeight - 2 } : null;
  }

  trackAt(y: number): Track | null {
    const over = (track: Track) => y >= this.top(track) && y < this.top(track) + track.height;
    return this.layout.pinned.find(over) ?? (y < this.layout.pinnedHeight ? null : (this.layout.moving.find(over) ?? null));
  }

  isGpu(track: Track): boolean {
    return track.gpu >= 0 || (track.lane >= 0 && this.shown(track).facts.lanes[track.lane].gpu);
  }
  rowsOf(track: Track): RowTile[] {
    return this.tiles[track.trace]?.rows.filter((row) => row.track === track.lane) ?? [];
  }
  shown(track: Track): Shown {
    return this.context.traces[track.trace];
  }

  paint(painter: () => void): void {
    this.painters.push(painter);
  }
  redraw(): void {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.frame();
    });
  }

  // A report has its tiles before this frame is shown. A server sends them later: until then the last ones are drawn, stretched.
  private frame(): void {
    let drawn = false;
    const draw = () => {
      drawn = true;
      for (const painter of this.painters) painter();
    };
    const asked = this.context.traces.map((trace) => this.load(trace));
    if (asked.every((each) => each === null)) draw();
    else {
      Promise.all(asked).then(draw);
      setTimeout(() => drawn || draw());
    }
  }

  // Ask for what is in view, unless that is what was asked last.
  private load({ index, zero, source }: Shown): Promise<void> | null {
    const lanes = this.visible().filter((track) => track.trace === index && track.lane >= 0);
    const { from, to } = this.range;
    const width = Math.round(this.width * this.ratio);
    const tracks = lanes.map((track) => track.lane);
    const wanted = [from, to, zero, width, ...tracks].join();
    if (wanted === this.asked[index]) return null;
    this.asked[index] = wanted;
    return source.tile({ from: from + zero, to: to + zero }, width, tracks).then(
      (tile) => {
        this.tiles[index] = tile;
      },
      (problem: Error) => {
        if (problem.name === "AbortError") return;
        this.asked[index] = "";
        this.context.say(problem.message);
      },
    );
  }
}

// What is selected, as it is drawn: an event with its launch and what it launched, or the kernels of a finding.

class Selected {
  trace = 0;
  event = -1;
  related: Events | null = null; // the event, its callers, its launch, what it launched

  constructor(
    private readonly context: Context,
    private readonly redraw: () => void,
  ) {}

  // To be called when the selection changes: true when the source has answered about a new event.
  async load(): Promise<boolean> {
    const { selection } = this.context.store.state;
    const now = selection?.kind === "event" ? selection : { trace: 0, event: -1 };
    if (now.trace === this.trace && now.event === this.event) return false;
    this.trace = now.trace;
    this.event = now.event;
    this.related = null;
    const shown = this.context.traces[now.trace];
    if (!shown || now.event < 0) return false;
    const columns = await shown.source.details(now.event).catch(() => null);
    if (this.event !== now.event || this.trace !== now.trace) return false;
    this.related = columns && new Events(shown.facts, columns);
    this.redraw();
    return true;
  }

  get at(): number {
    return this.related?.find(this.event) ?? -1;
  }

  // The range of what is selected, in shared time; null where nothing is, or where it is not known yet.
  range(): Range | null {
    const { store, traces } = this.context;
    const { selection } = store.state;
    if (selection?.kind === "range") return selection.range;
    if (selection?.kind === "finding") {
      const frame = insightOf(traces[selection.trace], selection.rule)?.place.frame;
      const { zero } = traces[selection.trace] ?? { zero: 0 };
      return frame ? { from: frame[0] - zero, to: frame[1] - zero } : null;
    }
    const { related, at } = this;
    if (!related || at < 0) return null;
    const from = related.start[at] - traces[this.trace].zero;
    return { from, to: from + related.length[at] };
  }
}
