import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryLine } from "../src/core/memoryline";

const TIME = Float64Array.of(10, 12, 12, 30, 31, 70);
const HELD = Float64Array.of(5, 9, 4, 20, 1, 7);
const LINE = new MemoryLine({ time: TIME, allocated: HELD });

test("the last event at or before a time", () => {
  for (let time = 0; time < 80; time++) assert.equal(LINE.place(time), TIME.filter((each) => each <= time).length - 1);
});

// Value by value: what held when a pixel began, and all that came in it.
test("no peak is lost at any width", () => {
  for (const [from, to, width] of [
    [0, 80, 80],
    [0, 80, 7],
    [0, 80, 1],
    [11, 33, 3],
    [30.5, 30.9, 4],
    [71, 90, 5],
  ]) {
    const { least, most } = LINE.extremes(HELD, from, to, width);
    for (let pixel = 0; pixel < width; pixel++) {
      const [start, end] = [from + ((to - from) * pixel) / width, from + ((to - from) * (pixel + 1)) / width];
      const inside = [...HELD].filter((_, at) => (pixel === 0 ? TIME[at] > start : TIME[at] >= start) && TIME[at] < end);
      const before = [...HELD].filter((_, at) => (pixel === 0 ? TIME[at] <= start : TIME[at] < start)).at(-1);
      const values = [...(before === undefined ? [] : [before]), ...inside];
      assert.equal(least[pixel], values.length ? Math.min(...values) : null, `${from} ${to} ${width} ${pixel}`);
      assert.equal(most[pixel], values.length ? Math.max(...values) : null, `${from} ${to} ${width} ${pixel}`);
    }
  }
});
