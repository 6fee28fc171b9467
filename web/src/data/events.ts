// The events of one trace (all of them in a report, those in view when a server sends them) and what is known about them.

import { frameText } from "../base/frames";
import { type Columns, firstNot } from "./columns";
import type { TraceFacts as Entry, IdleTime, KernelOrigin, Lane, NameParts, Origins, PageKernel, StepExtent } from "./documents";

const GPU_WORK = ["kernel", "gpu_memcpy", "gpu_memset"];
const CALLS = ["cuda_runtime", "cuda_driver"];
const ANNOTATIONS = ["user_annotation", "gpu_user_annotation"];

// What the timeline and the panel read of a trace.
type Known = "title" | "names" | "kinds" | "kernels" | "origins" | "decoded" | "shapes" | "timeline" | "launch_names" | "code_lines";
export type KnownTrace = Pick<Entry, Known> & Partial<Pick<Entry, "call_groups">> & { idle: IdleTime | null };

// A run of rows of the columns: one row of one lane.
export interface Stretch {
  lane: number;
  row: number;
  from: number;
  to: number;
  longest: number;
}

// What does not change while a trace is looked at: names, kernels by case, shapes, launch configurations, lanes, steps.
export class TraceFacts {
  readonly title: string;
  readonly names: string[];
  readonly kinds: string[];
  readonly kernels: PageKernel[];
  readonly origins: Origins;
  readonly idle: IdleTime | null;
  readonly launchNames: ReadonlySet<number>;
  readonly codeLines: Readonly<Record<number, string>>;
  readonly decoded: Map<number, NameParts>;
  readonly shapes: [string, string][][];
  readonly gpuKinds: Set<number>;
  readonly callKinds: Set<number>;
  readonly annotationKinds: Set<number>;
  readonly lanes: Lane[];
  readonly end: number;
  readonly steps: StepExtent[];
  readonly step: number | null;
  readonly configs: string[];
  readonly leftOut: number;
  readonly groups: string[];
  marks: string[] = [];
  private readonly ofCase: number[]; // the group of each kernel by case, and of each kind
  private readonly ofKind: number[];
  private readonly ofCall: Map<number, number>; // by name

  constructor(entry: KnownTrace) {
    ({ title: this.title, names: this.names, kinds: this.kinds, kernels: this.kernels } = entry);
    ({ lanes: this.lanes, end: this.end, steps: this.steps, step: this.step, configs: this.configs } = entry.timeline);
    this.leftOut = entry.timeline.left_out ?? 0;
    this.groups = entry.timeline.groups;
    this.ofCase = this.kernels.map(({ role }) => this.groups.indexOf(role));
    this.ofKind = this.kinds.map((kind) => this.groups.indexOf(GPU_WORK.includes(kind) ? "copy" : kind));
    this.ofCall = new Map(Object.entries(entry.call_groups ?? {}).map(([name, group]) => [Number(name), this.groups.indexOf(group)]));
    this.decoded = new Map(entry.decoded.map((row) => [row.name, row]));
    this.shapes = entry.shapes;
    this.origins = entry.origins;
    this.idle = entry.idle;
    this.launchNames = new Set(entry.launch_names);
    this.codeLines = entry.code_lines;
    this.gpuKinds = new Set(GPU_WORK.map((kind) => this.kinds.indexOf(kind)));
    this.callKinds = new Set(CALLS.map((kind) => this.kinds.indexOf(kind)));
    this.annotationKinds = new Set(ANNOTATIONS.map((kind) => this.kinds.indexOf(kind)));
  }

  // The number of an event's group: the role of a kernel, copies, what a call does, or the kind of a host event.
  groupNumber(kernel: number, kind: number, name: number): number {
    if (kernel >= 0 && this.kinds[kind] === "kernel") return this.ofCase[kernel];
    return this.callKinds.has(kind) ? (this.ofCall.get(name) ?? this.ofKind[kind]) : this.ofKind[kind];
  }

  // The names that contain a text: as written, or as decoded. Literal, so that no search can hang the page.
  namesWith(text: string): Set<number> {
    const wanted = text.toLowerCase();
    const found = new Set<number>();
    this.names.forEach((name, number) => {
      const short = this.decoded.get(number)?.short ?? "";
      if (name.toLowerCase().includes(wanted) || short.toLowerCase().includes(wanted)) found.add(number);
    });
    return found;
  }
}

// Columns in parallel, ordered by lane, row and start; a `stretch` is one row of one lane.
export class Events {
  readonly event: Float64Array;
  readonly start: Float64Array;
  readonly length: Float64Array;
  readonly lane: Float64Array;
  readonly row: Float64Array;
  readonly nameNumber: Float64Array;
  readonly kindNumber: Float64Array;
  readonly parent: Float64Array;
  readonly launch: Float64Array;
  readonly shape: Float64Array;
  readonly config: Float64Array;
  readonly case: Float64Array;
  readonly module: Float64Array | undefined;
  readonly mark: Float64Array | undefined;
  readonly count: number;
  readonly stretches: Stretch[];
  private places: ((event: number) => number) | undefined;

  constructor(
    readonly facts: TraceFacts,
    private readonly columns: Columns,
  ) {
    ({ event: this.event, start: this.start, length: this.length, lane: this.lane, row: this.row } = columns);
    ({ name: this.nameNumber, kind: this.kindNumber, parent: this.parent, launch: this.launch } = columns);
    ({ shape: this.shape, config: this.config, case: this.case } = columns);
    this.module = columns.module;
    this.mark = columns.mark;
    this.count = columns.event.length;
    this.stretches = this.findStretches();
  }

  columnsAt(places: readonly number[]): Columns {
    const pick = (values: Float64Array) => Float64Array.from(places, (at) => values[at]);
    return Object.fromEntries(Object.entries(this.columns).map(([name, values]) => [name, pick(values)]));
  }

  // Where a compiled kernel comes from; undefined for others.
  origin(at: number): KernelOrigin | undefined {
    return this.facts.origins.every[this.facts.origins.of[this.event[at]]];
  }

  private findStretches(): Stretch[] {
    const stretches: Stretch[] = [];
    let current: Stretch | null = null;
    for (let at = 0; at < this.count; at++) {
      if (!current || this.lane[at] !== current.lane || this.row[at] !== current.row) {
        current = { lane: this.lane[at], row: this.row[at], from: at, to: at, longest: 0 };
        stretches.push(current);
      }
      current.to = at + 1;
      current.longest = Math.max(current.longest, this.length[at]);
    }
    return stretches;
  }

  // The first event of a stretch that may reach into the time after `time`.
  firstNear(stretch: Stretch, time: number): number {
    return firstNot(stretch.from, stretch.to, (at) => this.start[at] < time - stretch.longest);
  }

  // The event of a row at a time, or the nearest one within `slack`; -1 when there is none.
  at(lane: number, row: number, time: number, slack: number): number {
    const stretch = this.stretches.find((each) => each.lane === lane && each.row === row);
    let best = -1;
    let bestGap = slack;
    if (!stretch) return best;
    for (let at = this.firstNear(stretch, time - slack); at < stretch.to && this.start[at] <= time + slack; at++) {
      const gap = Math.max(this.start[at] - time, time - this.start[at] - this.length[at], 0);
      if (gap <= bestGap) [best, bestGap] = [at, gap];
    }
    return best;
  }

  // Where an event of the trace is in these columns; -1 when it is not drawn.
  find(event: number): number {
    this.places ??= placesOf(this.event);
    return this.places(event);
  }

  name(at: number): string {
    return this.facts.names[this.nameNumber[at]];
  }
  kind(at: number): string {
    return this.facts.kinds[this.kindNumber[at]];
  }
  isGpuWork(at: number): boolean {
    return this.facts.gpuKinds.has(this.kindNumber[at]);
  }
  isAnnotation(at: number): boolean {
    return this.facts.annotationKinds.has(this.kindNumber[at]);
  }
  kernel(at: number): PageKernel | null {
    return this.case[at] >= 0 ? this.facts.kernels[this.case[at]] : null;
  }

  // What decides the colour: a kernel's role, or the kind of a host event.
  group(at: number): string {
    if (this.isGpuWork(at)) return this.kernel(at)?.role ?? "copy";
    return this.facts.groups[this.facts.groupNumber(-1, this.kindNumber[at], this.nameNumber[at])] ?? this.kind(at);
  }

  groupNumber(at: number): number {
    return this.facts.groupNumber(this.case[at], this.kindNumber[at], this.nameNumber[at]);
  }

  // What the name of GPU work says; an op may bear the name of its kernel, and is still no kernel.
  decoded(at: number): NameParts | undefined {
    return this.isGpuWork(at) ? this.facts.decoded.get(this.nameNumber[at]) : undefined;
  }

  label(at: number): string {
    const short = this.decoded(at)?.short;
    return short || (this.kind(at) === "python_function" ? frameText(this.name(at)) : this.name(at));
  }

  // The events around this one, outermost first; for GPU work those around its launch, and the launch itself.
  chain(at: number): number[] {
    const found: number[] = [];
    let up = this.isGpuWork(at) ? this.find(this.launch[at]) : this.find(this.parent[at]);
    while (up >= 0) {
      found.unshift(up);
      up = this.find(this.parent[up]);
    }
    return found;
  }

  launchedBy(at: number): number[] {
    const found: number[] = [];
    for (let work = 0; work < this.count; work++) {
      if (this.launch[work] < 0) continue;
      let up = this.find(this.launch[work]);
      while (up >= 0 && up !== at) up = this.find(this.parent[up]);
      if (up === at) found.push(work);
    }
    return found;
  }
}

// The place of each number, -1 for others. The numbers of a whole trace are dense and an array is quick; those of a screenful are not.
function placesOf(numbers: Float64Array): (number: number) => number {
  const most = numbers.reduce((a, b) => Math.max(a, b), -1);
  if (most > numbers.length * 4) {
    const places = new Map(Array.from(numbers, (number, at) => [number, at]));
    return (number) => places.get(number) ?? -1;
  }
  const places = new Int32Array(most + 1).fill(-1);
  numbers.forEach((number, at) => {
    places[number] = at;
  });
  return (number) => places[number] ?? -1;
}
