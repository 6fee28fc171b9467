// What happened in a range, exactly: sums over the GPU work in it, each clipped to the range.
//
// Work that runs at once on a GPU shares the time: a moment with two operations counts half for each, as in the groups of `look`.
// `share` is the integral of that, with a look-up per edge, so that groups add up to the busy time of any range.

import { countBelow, grouped } from "../data/columns";
import type { Events, TraceFacts } from "../data/events";
import type { Part, Range, RangeStats } from "../data/source";
import { Busy } from "./busy";
import type { IdleIndex } from "./idle";

export class RangeIndex {
  private readonly gpus: Gpu[];
  private readonly launches: Float64Array; // when launch calls begin, in order

  constructor(
    private readonly events: Events,
    private readonly idle: IdleIndex,
  ) {
    this.gpus = workByGpu(events).map((work) => new Gpu(events, work));
    this.launches = launchCalls(events);
  }

  of(range: Range): RangeStats {
    const sums = new Sums(this.events.facts);
    for (const gpu of this.gpus) gpu.addTo(sums, range);
    const busyNs = this.gpus.length ? this.gpus.reduce((sum, gpu) => sum + gpu.busy.between(range.from, range.to), 0) : null;
    return {
      ...range,
      gpus: this.gpus.length,
      busyNs,
      idle: busyNs === null ? [] : this.idle.within(range, this.gpus.length * (range.to - range.from) - busyNs),
      groups: sums.groups.parts(),
      kernels: sums.kernels.parts(),
      launches: countBelow(this.launches, range.to) - countBelow(this.launches, range.from),
      bytes: sums.bytes.known ? sums.bytes.amount : null,
      flops: sums.flops.known ? sums.flops.amount : null,
      costedNs: { bytes: sums.bytes.ns, flops: sums.flops.ns },
    };
  }
}

// The GPU work of one device in order of start, in typed arrays: a range may hold all of it, and follows the mouse.
class Gpu {
  readonly busy: Busy;
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  private readonly reach: Float64Array; // the latest end so far
  private readonly group: Int32Array;
  private readonly kernel: Int32Array;
  private readonly shared: Shared;
  private readonly sharedBefore: Float64Array; // `shared` at the start and at the end of each
  private readonly sharedAfter: Float64Array;

  constructor(events: Events, work: number[]) {
    work.sort((a, b) => events.start[a] - events.start[b]);
    this.start = Float64Array.from(work, (at) => events.start[at]);
    this.end = Float64Array.from(work, (at) => events.start[at] + events.length[at]);
    this.reach = this.end.slice();
    for (let at = 1; at < this.reach.length; at++) this.reach[at] = Math.max(this.reach[at], this.reach[at - 1]);
    this.group = Int32Array.from(work, (at) => events.groupNumber(at));
    this.kernel = Int32Array.from(work, (at) => events.case[at]);
    this.busy = new Busy(this.start, this.end);
    this.shared = new Shared(this.start, this.end);
    this.sharedBefore = this.start.map((time) => this.shared.at(time));
    this.sharedAfter = this.end.map((time) => this.shared.at(time));
  }

  addTo(sums: Sums, { from, to }: Range): void {
    const { start, end, sharedBefore, sharedAfter } = this;
    const [first, last] = [this.shared.at(from), this.shared.at(to)];
    for (let at = countBelow(this.reach, from); at < start.length && start[at] < to; at++) {
      if (end[at] <= from && (end[at] > start[at] || start[at] < from)) continue;
      const ns = Math.min(end[at], to) - Math.max(start[at], from);
      const shared = Math.min(sharedAfter[at], last) - Math.max(sharedBefore[at], first);
      sums.add(this.group[at], this.kernel[at], shared, ns, end[at] > start[at] ? ns / (end[at] - start[at]) : 1);
    }
  }
}

// The time that one operation would take if all that run at a moment shared it, since the beginning.
class Shared {
  private readonly edge: Float64Array;
  private readonly sum: Float64Array; // at each edge

  constructor(start: Float64Array, end: Float64Array) {
    const ends = end.slice().sort();
    this.edge = new Float64Array(start.length * 2);
    this.sum = new Float64Array(start.length * 2);
    let begun = 0;
    let ended = 0;
    for (let at = 0; at < this.edge.length; at++) {
      const running = begun - ended;
      const opens = begun < start.length && start[begun] <= ends[ended];
      this.edge[at] = opens ? start[begun++] : ends[ended++];
      if (at > 0) this.sum[at] = this.sum[at - 1] + (running ? (this.edge[at] - this.edge[at - 1]) / running : 0);
    }
  }

  // Where nothing runs it does not grow, and between two edges it grows evenly.
  at(time: number): number {
    const next = countBelow(this.edge, time);
    if (next === 0) return 0;
    if (next === this.edge.length) return this.sum[next - 1];
    const part = (time - this.edge[next - 1]) / (this.edge[next] - this.edge[next - 1]);
    return this.sum[next - 1] + (this.sum[next] - this.sum[next - 1]) * part;
  }
}

class Sums {
  readonly groups: Parts;
  readonly kernels: Parts;
  readonly bytes = { amount: 0, ns: 0, known: false };
  readonly flops = { amount: 0, ns: 0, known: false };

  constructor(private readonly facts: TraceFacts) {
    this.groups = new Parts(facts.groups.length);
    this.kernels = new Parts(facts.kernels.length);
  }

  add(group: number, kernel: number, shared: number, ns: number, share: number): void {
    this.groups.add(group, shared);
    if (kernel < 0) return;
    this.kernels.add(kernel, ns);
    const { bytes, flops } = this.facts.kernels[kernel];
    if (bytes !== null) cost(this.bytes, bytes * share, ns);
    if (flops !== null) cost(this.flops, flops * share, ns);
  }
}

function cost(sum: Sums["bytes"], amount: number, ns: number): void {
  sum.amount += amount;
  sum.ns += ns;
  sum.known = true;
}

class Parts {
  private readonly ns: Float64Array;
  private readonly count: Int32Array;

  constructor(size: number) {
    this.ns = new Float64Array(size);
    this.count = new Int32Array(size);
  }

  add(number: number, ns: number): void {
    this.ns[number] += ns;
    this.count[number] += 1;
  }

  parts(): Part[] {
    const found = Array.from(this.count, (count, number) => ({ number, ns: this.ns[number], count }));
    return found.filter(({ count }) => count).sort((a, b) => b.ns - a.ns);
  }
}

function workByGpu(events: Events): number[][] {
  const work = [...events.event.keys()].filter((at) => events.isGpuWork(at));
  return [...grouped(work, (at) => events.facts.lanes[events.lane[at]].gpu_number).values()];
}

function launchCalls(events: Events): Float64Array {
  const { launchNames, callKinds } = events.facts;
  const found: number[] = [];
  for (let at = 0; at < events.count; at++) {
    if (launchNames.has(events.nameNumber[at]) && callKinds.has(events.kindNumber[at])) found.push(events.start[at]);
  }
  return Float64Array.from(found).sort();
}
