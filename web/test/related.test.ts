import assert from "node:assert/strict";
import { test } from "node:test";
import { Related } from "../src/core/related";
import { searchEvents } from "../src/core/reportsource";
import type { Way } from "../src/data/source";
import { madeEvents, madeFacts } from "./made";

// Two steps; each calls an op that launches two kernels on two streams. The second kernel of a step runs first.
const facts = madeFacts({
  names: ["step", "aten::mm", "cudaLaunchKernel", "gemm_kernel", "add_kernel"],
  lanes: [{ gpu_number: 0 }, { gpu_number: 0 }, { gpu_number: null }],
  kernels: [{ role: "gemm" }, { role: "pointwise" }],
  steps: [
    { name: "ProfilerStep#0", start: 0, end: 100, last: 100 },
    { name: "ProfilerStep#1", start: 100, end: 200, last: 260 },
  ],
});
const step = (time: number, first: number) => [
  { start: time, length: 90, lane: 2, row: 0, name: 0, kind: 2 },
  { start: time + 10, length: 60, lane: 2, row: 1, name: 1, kind: 2, parent: first },
  { start: time + 20, length: 5, lane: 2, row: 2, name: 2, kind: 3, parent: first + 1 },
  { start: time + 40, length: 5, lane: 2, row: 2, name: 2, kind: 3, parent: first + 1 },
  { start: time + 60, length: 20, lane: 0, name: 3, kind: 0, launch: first + 2, case: 0 },
  { start: time + 50, length: 5, lane: 1, name: 4, kind: 0, launch: first + 3, case: 1 },
];
const events = madeEvents(facts, [...step(0, 0), ...step(100, 6)]);
const related = new Related(events);
const numbers = (column: Float64Array) => [...column].sort((a, b) => a - b);

test("an event comes with its callers and what it launched", () => {
  assert.deepEqual(numbers(related.details(4).event), [0, 1, 2, 4]);
  assert.deepEqual(numbers(related.details(1).event), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(numbers(related.details(7).event), [6, 7, 8, 9, 10, 11]);
  assert.deepEqual(numbers(related.details(99).event), []);
});

test("all launches of a kernel, each in the step that launched it", () => {
  const { event, start, length, step } = related.launches(0);
  assert.deepEqual(
    [event, start, length, step].map((column) => [...column]),
    [
      [4, 10],
      [60, 160],
      [20, 20],
      [0, 1],
    ],
  );
});

test("arrows follow launch order on the GPU and the row on the host", () => {
  const walks: [number, Way, number | null][] = [
    [4, "next", 5],
    [5, "next", 10],
    [10, "previous", 5],
    [4, "previous", null],
    [11, "next", null],
    [4, "up", 2],
    [2, "up", 1],
    [0, "up", null],
    [0, "down", 1],
    [1, "down", 2],
    [2, "down", 4],
    [4, "down", null],
    [2, "next", 3],
    [3, "next", 8],
    [0, "next", 6],
  ];
  for (const [event, way, wanted] of walks) assert.equal(related.neighbour(event, way, 0), wanted, `${event} ${way}`);
  assert.equal(related.neighbour(null, "next", 0), 5);
  assert.equal(related.neighbour(null, "next", 70), 11);
});

test("search counts by name, and lists events in order of time", () => {
  const found = searchEvents(events, "KERNEL");
  assert.equal(found.count, 8);
  assert.deepEqual([...found.names].sort(), [
    [2, 4],
    [3, 2],
    [4, 2],
  ]);
  assert.deepEqual([...found.events.event], [2, 3, 5, 4, 8, 9, 11, 10]);
  assert.deepEqual([searchEvents(events, "").count, searchEvents(events, "nothing").count], [0, 0]);
});
