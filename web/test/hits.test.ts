import assert from "node:assert/strict";
import { test } from "node:test";
import type { Shown } from "../src/core/context";
import { searchEvents } from "../src/core/reportsource";
import { Hits, viewOf } from "../src/core/searching";
import type { Selection } from "../src/core/store";
import { madeEvents, madeFacts } from "./made";

// The second trace begins 1,000 ns later: at shared time 0 both have their first kernel.
const facts = madeFacts({ names: ["gemm", "add"], lanes: [{ gpu_number: 0 }] });
const kernels = (zero: number) => [0, 100, 200].map((time, name) => ({ start: zero + time, length: 10, lane: 0, name: name % 2 }));
const recorded = [0, 1000].map((zero) => madeEvents(facts, kernels(zero)));
const traces = [0, 1000].map((zero, index) => ({ index, facts, zero }) as unknown as Shown);
const search = (text: string) =>
  new Hits(
    traces,
    recorded.map((events) => searchEvents(events, text)),
  );
const selected = (trace: number, event: number): Selection => ({ kind: "event", trace, event });

test("names of all traces are counted, the most frequent first", () => {
  const hits = search("m");
  assert.deepEqual(
    hits.names.map(({ trace, name, count }) => [trace.index, name, count]),
    [
      [0, 0, 2],
      [1, 0, 2],
    ],
  );
  assert.equal(hits.count, 4);
  assert.equal(search("nothing").next(null, 1), null);
});

test("the next one follows in shared time, around the end, and by name", () => {
  const hits = search("");
  assert.equal(hits.count, 0);
  const found = search("m");
  const walk = (step: number, from: Selection | null) => {
    const hit = found.next(from, step);
    return hit && [hit.trace, hit.event, hit.from];
  };
  assert.deepEqual(walk(1, null), [0, 0, 0]);
  assert.deepEqual(walk(1, selected(0, 0)), [1, 0, 0]);
  assert.deepEqual(walk(1, selected(1, 0)), [0, 2, 200]);
  assert.deepEqual(walk(1, selected(1, 2)), [0, 0, 0]);
  assert.deepEqual(walk(-1, null), [1, 2, 200]);
  const second = found.names[1];
  assert.deepEqual(found.next(selected(1, 0), 1, second)?.event, 2);
  assert.deepEqual(found.next(selected(0, 0), 1, second)?.trace, 1);
});

test("a view moves only where it must", () => {
  const present = { from: 0, to: 1000 };
  assert.equal(viewOf(present, { from: 100, to: 200 }), present);
  const outside = viewOf(present, { from: 5000, to: 5100 });
  assert.deepEqual(outside, { from: 4550, to: 5550 });
  const small = viewOf(present, { from: 500, to: 501 });
  assert.equal(small.to - small.from, 400);
  const large = viewOf(present, { from: 0, to: 8000 });
  assert.deepEqual(large, { from: -1000, to: 9000 });
});
