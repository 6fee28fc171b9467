import assert from "node:assert/strict";
import { test } from "node:test";
import { Bands, Busy } from "../src/core/busy";

// Numbers that are the same in every run (mulberry32).
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Made {
  start: number[];
  end: number[];
  group: number[];
}

// Intervals in [0, span): short and long ones, some of them empty, many overlapping.
function intervals(random: () => number, count: number, span: number): Made {
  const start = Array.from({ length: count }, () => Math.floor(random() * span)).sort((a, b) => a - b);
  const end = start.map((from) => from + Math.floor(random() ** 4 * span * 0.2));
  return { start, end, group: start.map(() => Math.floor(random() * 3)) };
}

// Which nanoseconds are covered, one by one.
function covered({ start, end }: Made, span: number, wanted = (_: number) => true): Uint8Array {
  const found = new Uint8Array(span * 2);
  start.forEach((from, at) => {
    if (wanted(at)) found.fill(1, from, end[at]);
  });
  return found;
}

const count = (cells: Uint8Array, from: number, to: number) => cells.subarray(from, to).reduce((sum, each) => sum + each, 0);
const near = (found: number, wanted: number, words: string) =>
  assert.ok(Math.abs(found - wanted) < 1e-9, `${words}: ${found}, not ${wanted}`);

test("each pixel shows what brute force counts", () => {
  const random = generator(1);
  for (let round = 0; round < 200; round++) {
    const span = 600;
    const made = intervals(random, Math.floor(random() * 60), span);
    const cells = covered(made, span);
    const busy = new Busy(made.start, made.end);
    near(busy.total, count(cells, 0, span * 2), "total");
    for (const [pixel, width] of [
      [1, 600],
      [2, 300],
      [7, 80],
      [60, 10],
      [600, 1],
    ]) {
      const from = Math.floor(random() * 100);
      const shares = busy.shares(from, from + pixel * width, width);
      for (let at = 0; at < width; at++) {
        const left = from + at * pixel;
        near(shares[at], count(cells, left, left + pixel) / pixel, `round ${round}, pixel ${at} of ${pixel} ns`);
      }
    }
  }
});

test("a view before, after and around all intervals", () => {
  const busy = new Busy([10, 20], [15, 30]);
  assert.deepEqual([...busy.shares(-20, 0, 2)], [0, 0]);
  assert.deepEqual([...busy.shares(30, 50, 2)], [0, 0]);
  assert.deepEqual([...busy.shares(0, 40, 4)], [0, 0.5, 1, 0]);
  assert.deepEqual([busy.between(0, 100), busy.between(12, 22), busy.between(16, 19)], [15, 5, 0]);
  assert.deepEqual([...new Busy([], []).shares(0, 10, 2)], [0, 0]);
});

test("pixels add up to the busy time, at every zoom", () => {
  const random = generator(2);
  const made = intervals(random, 20_000, 10_000_000);
  const busy = new Busy(
    made.start,
    made.end.map((end, at) => Math.min(end, made.start[at] + 300)),
  );
  for (const span of [13, 1_000, 77_777, 1_000_000, 12_000_000]) {
    const from = Math.floor(random() * 1_000_000);
    const shares = busy.shares(from, from + span, 1_400);
    const drawn = shares.reduce((sum, each) => sum + each, 0) * (span / 1_400);
    assert.ok(Math.abs(drawn - busy.between(from, from + span)) < 1e-5 * span, `${span} ns`);
  }
});

test("bands of groups are exact, and together take what is busy", () => {
  const random = generator(3);
  for (let round = 0; round < 60; round++) {
    const made = intervals(random, 40, 400);
    const bands = new Bands(made);
    const cells = covered(made, 400);
    for (const group of bands.groups) {
      const own = covered(made, 400, (at) => made.group[at] === group);
      near(bands.between(30, 350, group), count(own, 30, 350), `group ${group}`);
    }
    const parts = [...bands.bands(0, 400, 50).values()];
    for (let at = 0; at < 50; at++) {
      const sum = parts.reduce((all, part) => all + part[at], 0);
      near(sum, count(cells, at * 8, at * 8 + 8) / 8, `pixel ${at}`);
    }
  }
});
