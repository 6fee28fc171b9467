import assert from "node:assert/strict";
import { test } from "node:test";
import { fittingTicks, ticks } from "../src/core/ticks";

const labels = (from: number, to: number, count: number) => ticks(from, to, count).map((tick) => tick.label);

test("short numbers stay whole", () => {
  assert.deepEqual(labels(0, 40_000_000, 4), ["0", "10 ms", "20 ms", "30 ms", "40 ms"]);
  assert.deepEqual(labels(0, 2_500_000_000, 5), ["0", "500 ms", "1 s", "1.5 s", "2 s", "2.5 s"]);
  assert.deepEqual(labels(-1_000, 1_000, 2), ["−1 us", "0", "1 us"]);
});

test("ticks of a narrow view are written in two parts", () => {
  assert.deepEqual(labels(237_020_000, 237_080_000, 3), ["237 ms + 20 us", "237 ms + 40 us", "237 ms + 60 us", "237 ms + 80 us"]);
  assert.deepEqual(labels(1_237_999_990, 1_238_000_010, 4), [
    "1.237999 s + 990 ns",
    "1.237999 s + 995 ns",
    "1.238 s",
    "1.238 s + 5 ns",
    "1.238 s + 10 ns",
  ]);
  assert.deepEqual(labels(-237_040_000, -237_020_000, 1), ["−237 ms − 40 us", "−237 ms − 20 us"]);
});

test("no two ticks of a view read the same, and all are whole nanoseconds", () => {
  for (const from of [0, 17, 999_999_999, 237_000_000, 123_456_789_012]) {
    for (let span = 20; span < 1e12; span *= 7) {
      const found = ticks(from, from + span, 8);
      assert.equal(new Set(found.map((tick) => tick.label)).size, found.length, `${span} ns from ${from}`);
      assert.ok(found.length >= 2 && found.every((tick) => Number.isInteger(tick.time)));
    }
  }
});

test("labels of a ruler have room, down to a nanosecond a tick and on a phone", () => {
  for (const width of [270, 800, 1300]) {
    for (const from of [0, 9_123_456, -237_000_111, 999_999_999_999]) {
      for (let span = 20; span < 1e12; span *= 1.7) {
        const found = fittingTicks(from, from + span, width);
        const x = found.map(({ time }) => ((time - from) / span) * width);
        found.slice(1).forEach((_, at) => {
          assert.ok(x[at] + found[at].label.length * 6.6 < x[at + 1], `${found[at].label} of ${span} ns in ${width} pixels`);
        });
      }
    }
  }
});
