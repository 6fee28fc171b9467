import assert from "node:assert/strict";
import { test } from "node:test";
import { Tiles } from "../src/core/tiles";
import { generator, type MadeEvent, madeEvents, madeFacts } from "./made";

const LANES = [
  { gpu: true, rows: 1, gpu_number: 0, kind: "stream" },
  { gpu: true, rows: 1, gpu_number: 0, kind: "stream" },
  { gpu: false, rows: 2, gpu_number: null, kind: "thread" },
];
const KERNELS = [{ role: "gemm" }, { role: "pointwise" }];
const FACTS = madeFacts({ names: ["a"], lanes: LANES, kernels: KERNELS });

function made(seed: number, count: number): MadeEvent[] {
  const random = generator(seed);
  return Array.from({ length: count }, () => {
    const lane = Math.floor(random() * 3);
    const onGpu = lane < 2;
    return {
      start: Math.floor(random() * 10_000),
      length: Math.floor(random() ** 4 * 2000),
      lane,
      row: onGpu ? 0 : Math.floor(random() * 2),
      kind: onGpu ? 0 : 2,
      case: onGpu ? Math.floor(random() * 2) : -1,
    };
  });
}

// How long at least one of these runs between two times, counted ns by ns.
function busy(events: MadeEvent[], from: number, to: number): number {
  let sum = 0;
  for (let time = from; time < to; time++) if (events.some((each) => each.start <= time && each.start + each.length > time)) sum += 1;
  return sum;
}

const sums = (bands: Map<number, Float64Array>, at: number) => [...bands.values()].reduce((sum, band) => sum + band[at], 0);

test("bands of rows and strips are the busy time of each pixel", () => {
  for (const seed of [1, 2, 3]) {
    const list = made(seed, 300);
    const tiles = new Tiles(madeEvents(FACTS, list));
    const [from, to, width] = [1000 * seed, 1000 * seed + 1500, 15];
    const tile = tiles.tile({ from, to }, width, [0, 1, 2]);
    for (const row of tile.rows) {
      const own = list.filter((each) => each.lane === row.track && (each.row ?? 0) === row.row);
      for (let at = 0; at < width; at++) {
        const wanted = busy(own, from + at * 100, from + at * 100 + 100);
        assert.ok(Math.abs(sums(row.bands, at) - wanted) < 1e-6, `row ${row.track}.${row.row}, pixel ${at}`);
      }
    }
    const work = list.filter((each) => each.lane < 2);
    for (let at = 0; at < width; at++) {
      const wanted = busy(work, from + at * 100, from + at * 100 + 100);
      assert.ok(Math.abs(sums(tile.strips[0].bands, at) - wanted) < 1e-6, `strip, pixel ${at}`);
    }
  }
});

test("boxes are the events that are a pixel wide and in view", () => {
  const list = made(4, 2000);
  const tiles = new Tiles(madeEvents(FACTS, list));
  for (const [from, to, width] of [
    [0, 12_000, 40],
    [3000, 3600, 600],
    [5000, 5001, 1],
  ]) {
    const pixel = (to - from) / width;
    const seen = (each: MadeEvent) => each.length >= pixel && each.start <= to && each.start + each.length >= from;
    for (const row of tiles.tile({ from, to }, width, [0, 1, 2]).rows) {
      const own = list.filter((each) => each.lane === row.track && (each.row ?? 0) === row.row && seen(each));
      assert.deepEqual([...row.boxes.start].sort(), own.map((each) => each.start).sort());
    }
  }
});

test("only the tracks that are asked for have rows", () => {
  const tiles = new Tiles(madeEvents(FACTS, made(5, 50)));
  const { rows, strips } = tiles.tile({ from: 0, to: 100 }, 10, [2]);
  assert.deepEqual(new Set(rows.map((row) => row.track)), new Set([2]));
  assert.equal(strips.length, 1);
});
