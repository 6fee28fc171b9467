// Places of changed work, and the alignment of traces.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../src/core/context";
import { Joins } from "../src/core/joins";
import { changeAlign, followAlign, home } from "../src/core/moving";
import { Store } from "../src/core/store";
import type { ComparedPair } from "../src/data/documents";

const WORK = {
  change: [0, 0, 0, 0, 0, 1, 1],
  place: [0, 0, 0, 1, 1, 0, 0],
  side: [0, 0, 1, 0, 1, 0, 1],
  event: [11, 12, 21, 13, 23, 14, 24],
  start: [100, 130, 500, 300, 700, 400, 800],
  length: [20, 30, 40, 10, 10, 5, 5],
  case: [1, 2, 0, 1, 0, 3, 3],
};
const columns = Object.fromEntries(Object.entries(WORK).map(([name, values]) => [name, Float64Array.from(values)]));
const pair = { a: 0, b: 1, changes: [{ same: false }, { same: true }] } as unknown as ComparedPair;

function context(): Context {
  const trace = (end: number) => ({ zero: 7, facts: { end }, entry: { timeline: { steps: [], step: null } } });
  const anchors = [
    { name: "step", starts: [100, 500], ends: [250, 900] },
    { name: "forward", starts: [110, 600], ends: [200, 650] },
  ];
  return { store: new Store(), traces: [trace(1000), trace(2000)], compared: { pairs: [pair], anchors } } as unknown as Context;
}

test("work of one place is together, on each side", () => {
  const joins = new Joins(pair, columns);
  assert.equal(joins.places.length, 3);
  assert.deepEqual(joins.places[0].sides, [
    { from: 100, to: 160, events: [11, 12], cases: [1, 2] },
    { from: 500, to: 540, events: [21], cases: [0] },
  ]);
  assert.equal(joins.of(0).length, 2);
  assert.deepEqual(
    joins.places.map((place) => joins.changed(place)),
    [true, true, false],
  );
  assert.equal(joins.holding(1, 23), joins.places[1]);
  assert.equal(joins.holding(0, 23), undefined);
});

test("traces are aligned by what is chosen, and the page opens there", async () => {
  const made = context();
  followAlign(made);
  assert.deepEqual(
    made.traces.map(({ zero }) => zero),
    [100, 500],
  );
  assert.deepEqual(home(made), { from: 0, to: 400 });
  assert.deepEqual(new Joins(pair, columns).around(new Joins(pair, columns).places[0], made.traces), { from: 0, to: 60 });
  const told: unknown[] = [];
  made.store.on(["view"], () => told.push(made.traces[1].zero));
  made.store.set({ align: "forward" });
  await Promise.resolve();
  assert.deepEqual(
    made.traces.map(({ zero }) => zero),
    [110, 600],
  );
  assert.deepEqual(told, [600]); // everyone draws again, with the new zeros
  assert.deepEqual(home(made), { from: 0, to: 90 });
  made.store.set({ align: "no such region" });
  await Promise.resolve();
  assert.deepEqual(
    made.traces.map(({ zero }) => zero),
    [100, 500],
  );
});

test("each trace goes to its own place of a change; the step is still where it was", async () => {
  const made = { ...context(), joins: [new Joins(pair, columns)] } as unknown as Context;
  followAlign(made);
  made.store.set({ align: changeAlign(1) });
  await Promise.resolve();
  assert.deepEqual(
    made.traces.map(({ zero }) => zero),
    [300, 700],
  );
  assert.deepEqual(home(made), { from: -200, to: 200 });
});

test("work that one side lacks begins where the work before it ends", () => {
  const lacking = { ...columns, side: Float64Array.from([0, 0, 1, 0, 0, 0, 1]) };
  const joins = new Joins(pair, lacking);
  assert.deepEqual(joins.begins(joins.places[1]), [300, 540]);
});

test("changes come by size", () => {
  const changes = [
    { same: false, saved_ns: -2 },
    { same: true, saved_ns: 899 },
    { same: false, saved_ns: -90 },
  ];
  assert.deepEqual(new Joins({ ...pair, changes } as unknown as ComparedPair, columns).bySize(), [2, 0]);
});
