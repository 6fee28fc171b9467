// The tracks of the timeline from above: each GPU with its streams, the threads that launch, then folded what is seldom looked at.

import type { Lane } from "../data/documents";
import type { Shown } from "./context";
import type { State } from "./store";

type TrackKind = "title" | "gpu" | "lane" | "fold";

export interface Track {
  key: string; // in the address: `0/gpu0/stream7`
  kind: TrackKind;
  trace: number;
  label: string;
  lane: number; // a place in the lanes of its trace, -1 for none
  gpu: number; // the GPU of a utilisation strip, -1 for none
  rows: number;
  rowHeight: number;
  height: number;
  top: number;
  depth: number; // how far its name is moved in
  open: boolean | null; // null: cannot be folded
  pinned: boolean; // it stays in view
  byHand: boolean; // a person pinned it
}

export interface Layout {
  pinned: Track[]; // these stay where they are, the others move below them
  moving: Track[];
  pinnedHeight: number;
  height: number; // of those that move
}

export const STRIP = 30;
const ROW = 18;
const FLAME_ROW = 14;
const HEADS = { title: 34, gpu: STRIP, fold: 20, lane: 0 };
const GAP = 4;

// `head`: room for a name above each track, where there is none beside it.
export function layOut(traces: readonly Shown[], state: Pick<State, "pinned" | "open">, head = 0): Layout {
  const several = traces.length > 1;
  const parts = traces.map((trace) => tracksOf(trace, several, state));
  // the GPU tracks of several traces lie below each other, so that they can be compared
  const all = [...parts.flatMap(({ gpus }) => gpus), ...parts.flatMap(({ threads }) => threads)];
  const seen = new Set(state.pinned);
  const held = new Set(parts.some(({ threads }) => threads.some(isFrames)) ? stays(parts.flatMap(({ gpus }) => gpus)) : []);
  const isHeld = (track: Track) => seen.has(track.key) || held.has(track);
  const pinned = all.filter(isHeld).map((track) => ({ ...track, pinned: true, byHand: seen.has(track.key) }));
  const moving = all.filter((track) => !isHeld(track));
  return { pinned, moving, pinnedHeight: stack(pinned, head), height: stack(moving, head) };
}

const MOST_HELD = 170; // pixels: what stays in view leaves room for what was opened

function isFrames({ rowHeight, kind }: Track): boolean {
  return kind === "lane" && rowHeight === FLAME_ROW;
}

// Frames of Python are tall: while they are open the GPUs stay above them, with their streams where there is room.
function stays(gpus: Track[]): Track[] {
  const tall = gpus.reduce((sum, { height }) => sum + height, 0);
  return tall <= MOST_HELD ? gpus : gpus.filter(({ kind }) => kind === "gpu").slice(0, 4);
}

function stack(tracks: Track[], head: number): number {
  let top = 0;
  for (const track of tracks) {
    const above = track.kind === "lane" || track.kind === "gpu" ? head : 0;
    track.top = top + above;
    top += above + track.height;
  }
  return top;
}

// Whether a track is open: `open` lists those that were opened, and with a tilde those that were closed.
export function isOpen(open: readonly string[], key: string, usually: boolean): boolean {
  return usually ? !open.includes(`~${key}`) : open.includes(key);
}

export function toggled(open: readonly string[], { key, open: now }: Track): string[] {
  const others = open.filter((each) => each !== key && each !== `~${key}`);
  if (others.length < open.length) return others;
  return [...others, now ? `~${key}` : key];
}

function tracksOf({ index, entry, facts }: Shown, several: boolean, { open }: Pick<State, "open">): Record<"gpus" | "threads", Track[]> {
  const make = (kind: TrackKind, key: string, label: string, more: Partial<Track> = {}): Track => ({
    ...{ key: `${index}/${key}`, kind, trace: index, label, lane: -1, gpu: -1, rows: 0, rowHeight: ROW, top: 0, depth: 0 },
    ...{ open: null, pinned: false, byHand: false, height: HEADS[kind] },
    ...more,
  });
  const laneTrack = (lane: number, label: string, depth: number): Track => {
    const { key, rows, kind } = facts.lanes[lane];
    const rowHeight = kind === "python" ? FLAME_ROW : ROW;
    return make("lane", key || String(lane), label, { lane, rows, rowHeight, height: rows * rowHeight + GAP, depth });
  };
  const fold = (key: string, label: string, usually: boolean, inside: () => Track[], more: Partial<Track> = {}): Track[] => {
    const isNow = isOpen(open, `${index}/${key}`, usually);
    return [make(more.kind ?? "fold", key, label, { open: isNow, ...more }), ...(isNow ? inside() : [])];
  };
  const lanes = facts.lanes.map((lane, at) => ({ lane, at }));
  const thread = ({ lane, at }: { lane: Lane; at: number }): Track[] => {
    const of = (sort: string) => lanes.filter((each) => each.lane.kind === "python" && each.lane.key === `${lane.key}/${sort}`);
    const label = lane.launches ? `${lane.label} · launches` : lane.label;
    const frames = of("python").map((each) => laneTrack(each.at, "", 1)),
      torch = of("torch").map((each) => laneTrack(each.at, "", 2));
    const own = () => (torch.length ? fold(`${lane.key}/torch`, "frames of PyTorch", false, () => torch, { depth: 2 }) : []);
    const folded = () => fold(`${lane.key}/frames`, "Python frames", false, () => [...frames, ...own()], { depth: 1 });
    return [laneTrack(at, label, 0), ...(frames.length || torch.length ? folded() : [])];
  };
  const streams = lanes.filter(({ lane }) => lane.gpu);
  const gpus = [...new Set(streams.map(({ lane }) => lane.gpu_number ?? -1))];
  const { launching, others, idle } = sorted(lanes);
  const onGpus = [
    ...(several ? [make("title", "title", entry.title)] : []),
    ...gpus.flatMap((gpu) => {
      const own = streams.filter(({ lane }) => (lane.gpu_number ?? -1) === gpu);
      if (gpu < 0) return own.map(({ lane, at }) => laneTrack(at, lane.label, 0));
      const inside = () => own.map(({ lane, at }) => laneTrack(at, lane.label.replace(/^GPU \S+ · /, ""), 1));
      const label = own[0].lane.label.replace(/ · .*/, "");
      return fold(`gpu${gpu}`, label, true, inside, { kind: "gpu", gpu, height: STRIP + GAP });
    }),
  ];
  const onHost = () => [
    ...launching.flatMap(thread),
    ...(others.length ? fold("others", many(others.length, "other thread"), false, () => others.flatMap(thread)) : []),
    ...(idle.length
      ? fold("idle", many(new Set(idle.map(({ lane }) => threadOf(lane))).size, "idle thread"), false, () =>
          idle.map(({ lane, at }) => laneTrack(at, lane.key.endsWith("/torch") ? `${lane.label} · PyTorch` : lane.label, 1)),
        )
      : []),
  ];
  const threads = several && gpus.length ? fold("threads", `threads of ${entry.title}`, false, onHost) : onHost();
  return { gpus: onGpus, threads };
}

// What must be open so that a lane is seen.
export function opened({ index, facts }: Shown, open: readonly string[], at: number, several: boolean): readonly string[] {
  const lanes = facts.lanes.map((lane, place) => ({ lane, at: place }));
  const { lane } = lanes[at] ?? {};
  if (!lane) return open;
  const closed = `~${index}/gpu${lane.gpu_number}`;
  const { others, idle } = sorted(lanes);
  const has = (list: Placed[], key: string) => list.some((each) => each.lane.key === key);
  const thread = threadOf(lane);
  const wanted = [
    ...(several && !lane.gpu && lanes.some((each) => each.lane.gpu) ? ["threads"] : []),
    ...(has(idle, lane.key) ? ["idle"] : []),
    ...(has(others, thread) ? ["others"] : []),
    ...(lane.kind === "python" && !has(idle, lane.key) ? [`${thread}/frames`] : []),
    ...(lane.kind === "python" && !has(idle, lane.key) && lane.key.endsWith("/torch") ? [lane.key] : []),
  ].map((key) => `${index}/${key}`);
  const missing = wanted.filter((key) => !open.includes(key));
  return missing.length || open.includes(closed) ? [...open.filter((key) => key !== closed), ...missing] : open;
}

type Placed = { lane: Lane; at: number };

// Threads that launch (all that run ops where none does), those that run ops, and those that show nothing but frames of Python.
function sorted(lanes: Placed[]): Record<"launching" | "others" | "idle", Placed[]> {
  const threads = lanes.filter(({ lane }) => !lane.gpu && lane.kind !== "python");
  const keys = new Set(threads.map(({ lane }) => lane.key));
  const idle = lanes.filter(({ lane }) => lane.kind === "python" && !keys.has(threadOf(lane)));
  const launching = threads.filter(({ lane }) => lane.launches > 0);
  if (!launching.length) launching.push(...threads); // without a GPU all that run ops are looked at
  return { launching, others: threads.filter((each) => !launching.includes(each)), idle };
}

function threadOf({ key }: Lane): string {
  return key.replace(/\/(python|torch)$/, "");
}

function many(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
