// Traces for tests, made from a few numbers.

import type { Lane, PageKernel } from "../src/data/documents";
import { Events, type KnownTrace, TraceFacts } from "../src/data/events";

export const KINDS = ["kernel", "gpu_memcpy", "cpu_op", "cuda_runtime"];
const COLUMNS = "event start length lane row name kind parent launch shape config case".split(" ");

// Numbers that are the same in every run (mulberry32).
export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface MadeEvent {
  start: number;
  length: number;
  lane: number;
  row?: number;
  name?: number;
  kind?: number;
  parent?: number;
  launch?: number;
  case?: number;
}

export interface MadeTrace {
  names: string[];
  lanes: Partial<Lane>[];
  kernels?: Partial<PageKernel>[];
  steps?: { name: string; start: number; end: number; last: number }[];
  launchNames?: number[];
}

export function madeFacts({ names, lanes, kernels = [], steps = [], launchNames = [] }: MadeTrace): TraceFacts {
  const groups = [...new Set(kernels.map(({ role }) => role ?? "other"))];
  const entry = {
    title: "made",
    names,
    kinds: KINDS,
    kernels,
    look: null,
    roofs: null,
    idle: null,
    launch_names: launchNames,
    code_lines: {},
    decoded: [],
    shapes: [],
    origins: { every: [], of: {} },
    timeline: { lanes, end: 0, steps, step: null, configs: [], groups: [...groups, "copy", "cpu_op", "cuda_runtime"] },
  };
  return new TraceFacts(entry as unknown as KnownTrace);
}

// The number of an event is its place in the list that was given.
export function madeEvents(facts: TraceFacts, made: readonly MadeEvent[]): Events {
  const rows = made.map((each, event) => ({
    row: 0,
    name: 0,
    kind: 0,
    parent: -1,
    launch: -1,
    case: -1,
    shape: -1,
    config: -1,
    event,
    ...each,
  }));
  rows.sort((a, b) => a.lane - b.lane || a.row - b.row || a.start - b.start);
  const column = (name: string) => Float64Array.from(rows, (row) => row[name as keyof (typeof rows)[number]]);
  return new Events(facts, Object.fromEntries(COLUMNS.map((name) => [name, column(name)])));
}
