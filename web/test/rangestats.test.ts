import assert from "node:assert/strict";
import { test } from "node:test";
import { IdleIndex } from "../src/core/idle";
import { RangeIndex } from "../src/core/rangestats";
import type { Columns } from "../src/data/columns";
import type { Events } from "../src/data/events";
import type { Part, Range, RangeStats } from "../src/data/source";
import { generator, type MadeEvent, madeEvents, madeFacts } from "./made";

const SPAN = 300;
const KERNELS = [
  { role: "gemm", bytes: 100, flops: 7000 },
  { role: "pointwise", bytes: 50, flops: null },
  { role: "gemm", bytes: null, flops: null },
];
const LANES = [{ gpu_number: 0 }, { gpu_number: 0 }, { gpu_number: 1 }, { gpu_number: null }];
const CAUSES = ["sync", "launch"];
const near = (found: number | null, wanted: number | null, words: string) =>
  assert.ok(found === wanted || Math.abs((found ?? 0) - (wanted ?? 0)) < 1e-6, `${words}: ${found}, not ${wanted}`);

function made(random: () => number): Events {
  const number = (below: number) => Math.floor(random() * below);
  const work = Array.from({ length: 40 }, (): MadeEvent => {
    const copy = random() < 0.2;
    return { start: number(SPAN), length: number(4) ? number(30) : 0, lane: number(3), kind: copy ? 1 : 0, case: copy ? -1 : number(3) };
  });
  const calls = Array.from(
    { length: 30 },
    (): MadeEvent => ({ start: number(SPAN), length: 2, lane: 3, kind: 2 + number(2), name: number(2) }),
  );
  return madeEvents(madeFacts({ names: ["cudaLaunchKernel", "other"], lanes: LANES, kernels: KERNELS, launchNames: [0] }), [
    ...work,
    ...calls,
  ]);
}

// What runs on a GPU in each nanosecond.
function running(events: Events, gpu: number, time: number): number[] {
  const on = (at: number) => events.isGpuWork(at) && LANES[events.lane[at]].gpu_number === gpu;
  const here = (at: number) => events.start[at] <= time && time < events.start[at] + events.length[at];
  return [...events.event.keys()].filter((at) => on(at) && here(at));
}

// Idle time: each gap of a GPU, cut in two; the first half is `sync`.
function idleOf(events: Events): Columns {
  const rows: number[][] = [];
  for (const gpu of [0, 1]) {
    for (let time = 0; time < SPAN; time++) {
      if (running(events, gpu, time).length) continue;
      let end = time;
      while (end < SPAN && !running(events, gpu, end).length) end++;
      const middle = (time + end) >> 1;
      if (middle > time) rows.push([time, middle - time, 0, gpu]);
      rows.push([middle, end - middle, 1, gpu]);
      time = end;
    }
  }
  const column = (at: number) => Float64Array.from(rows, (row) => row[at]);
  return { start: column(0), length: column(1), cause: column(2), gpu: column(3) };
}

function counted(events: Events, idle: Columns, { from, to }: Range): RangeStats {
  const groups = new Map<number, Part>();
  const kernels = new Map<number, Part>();
  const add = (parts: Map<number, Part>, number: number, ns: number, count: number) => {
    const own = parts.get(number) ?? { number, ns: 0, count: 0 };
    parts.set(number, { number, ns: own.ns + ns, count: own.count + count });
  };
  const group = (at: number) => events.groupNumber(at);
  const gpus = [0, 1].filter((gpu) =>
    [...events.event.keys()].some((at) => events.isGpuWork(at) && LANES[events.lane[at]].gpu_number === gpu),
  );
  let busyNs = 0;
  const sums = { bytes: 0, flops: 0 };
  const costedNs = { bytes: 0, flops: 0 };
  for (const gpu of gpus) {
    for (let time = from; time < to; time++) {
      const here = running(events, gpu, time);
      busyNs += here.length ? 1 : 0;
      for (const at of here) {
        add(groups, group(at), 1 / here.length, 0);
        if (events.case[at] >= 0) add(kernels, events.case[at], 1, 0);
      }
    }
  }
  const known = { bytes: false, flops: false };
  for (let at = 0; at < events.count; at++) {
    if (!events.isGpuWork(at)) continue;
    const [start, end] = [events.start[at], events.start[at] + events.length[at]];
    const ns = Math.min(end, to) - Math.max(start, from);
    if (start === end ? start < from || start >= to : ns <= 0) continue;
    add(groups, group(at), 0, 1);
    if (events.case[at] < 0) continue;
    add(kernels, events.case[at], 0, 1);
    for (const name of ["bytes", "flops"] as const) {
      const amount = events.kernel(at)?.[name] ?? null;
      if (amount === null) continue;
      known[name] = true;
      sums[name] += start === end ? amount : (amount * ns) / (end - start);
      costedNs[name] += Math.max(ns, 0);
    }
  }
  const causes = CAUSES.map((cause, number) => {
    const pieces = [...idle.start.keys()].filter((at) => idle.cause[at] === number);
    const times = pieces.map((at) => Math.min(idle.start[at] + idle.length[at], to) - Math.max(idle.start[at], from));
    return { cause, ns: times.reduce((sum, ns) => sum + Math.max(ns, 0), 0), count: times.filter((ns) => ns > 0).length };
  });
  const rest = gpus.length * (to - from) - busyNs - causes.reduce((sum, { ns }) => sum + ns, 0);
  const launches = [...events.event.keys()].filter((at) => events.nameNumber[at] === 0 && events.kind(at) === "cuda_runtime");
  return {
    from,
    to,
    gpus: gpus.length,
    busyNs,
    idle: [...causes, { cause: "outside", ns: rest, count: 1 }].filter(({ ns }) => ns > 0),
    groups: [...groups.values()],
    kernels: [...kernels.values()],
    launches: launches.filter((at) => events.start[at] >= from && events.start[at] < to).length,
    bytes: known.bytes ? sums.bytes : null,
    flops: known.flops ? sums.flops : null,
    costedNs,
  };
}

test("a range has what brute force counts, nanosecond by nanosecond", () => {
  const random = generator(3);
  for (let round = 0; round < 40; round++) {
    const events = made(random);
    const idle = idleOf(events);
    const index = new RangeIndex(events, new IdleIndex(idle, CAUSES));
    for (let each = 0; each < 4; each++) {
      const from = Math.floor(random() * SPAN) - 20;
      const to = from + 1 + Math.floor(random() * SPAN);
      const found = index.of({ from, to });
      const wanted = counted(events, idle, { from, to });
      for (const name of ["gpus", "busyNs", "launches", "bytes", "flops"] as const) near(found[name], wanted[name], name);
      for (const name of ["bytes", "flops"] as const) near(found.costedNs[name], wanted.costedNs[name], `time of ${name}`);
      for (const name of ["groups", "kernels"] as const) {
        assert.deepEqual(new Set(found[name].map((part) => part.number)), new Set(wanted[name].map((part) => part.number)));
        for (const part of wanted[name]) {
          const same = found[name].find(({ number }) => number === part.number);
          near(same?.ns ?? null, part.ns, `${name} ${part.number}`);
          assert.equal(same?.count, part.count, `${name} ${part.number}`);
        }
      }
      assert.deepEqual(new Map(found.idle.map((row) => [row.cause, row])), new Map(wanted.idle.map((row) => [row.cause, row])));
      const groups = found.groups.reduce((sum, { ns }) => sum + ns, 0);
      near(groups, found.busyNs, "groups add up to what is busy");
    }
  }
});

test("without a GPU nothing is said to be idle", () => {
  const facts = madeFacts({ names: ["aten::mm"], lanes: [{ gpu_number: null }] });
  const events = madeEvents(facts, [{ start: 0, length: 10, lane: 0, kind: 2 }]);
  const found = new RangeIndex(events, new IdleIndex({}, [])).of({ from: 0, to: 10 });
  assert.deepEqual([found.busyNs, found.idle, found.groups, found.bytes], [null, [], [], null]);
});
