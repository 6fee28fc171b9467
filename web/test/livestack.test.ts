import assert from "node:assert/strict";
import { test } from "node:test";
import { Grouping, LiveStack } from "../src/core/livestack";
import { generator } from "./made";

const EVENTS = 400,
  LIVES = 150,
  GROUPS = 3;
const random = generator(5),
  whole = (most: number) => Math.floor(random() * most);

// Allocations with a size, a life and a group; every third is drawn by itself, and every second event is a point.
const lives = Array.from({ length: LIVES }, () => ({ start: whole(EVENTS) - 1, size: 1 + whole(1000), group: whole(GROUPS) }))
  .map((each) => ({ ...each, end: each.start + 1 + whole(EVENTS) }))
  .sort((a, b) => a.start - b.start);
const own = lives.filter((_, at) => at % 3 === 0);
const column = (values: number[]) => Float64Array.from(values);
const event = column(Array.from({ length: EVENTS / 2 }, (_, at) => 2 * at));
const at = (moment: number, group?: number) =>
  lives.filter((each) => each.start <= moment && moment < each.end && (group === undefined || each.group === group));
const bytes = (found: typeof lives) => found.reduce((sum, { size }) => sum + size, 0);
const live = event.map((moment) => bytes(at(moment)));
const boxes = {
  start: column(own.map(({ start }) => start)),
  end: column(own.map(({ end }) => end)),
  size: column(own.map(({ size }) => size)),
  line: column(own.map(({ group }) => group)),
};
const held = Object.fromEntries(
  Array.from({ length: GROUPS }, (_, group) => [
    [`bytes${group}`, event.map((moment) => bytes(at(moment, group)))],
    [`count${group}`, event.map((moment) => at(moment, group).length)],
  ]).flat(),
);
const STACK = new LiveStack({ event, time: event.map((each) => each * each), live }, boxes);
const GROUPING = new Grouping({ by: "line", names: ["a", "b", "c"], folded: 0 }, held, boxes);

test("bands lie on each other without a gap, and reach what is live", () => {
  for (let point = 0; point < STACK.length; point++) {
    let height = 0;
    for (const band of STACK.bandsAt(GROUPING, point)) {
      assert.equal(band.from, height);
      assert.ok(band.bytes > 0 && band.count > 0);
      height += band.bytes;
    }
    assert.equal(height, live[point]);
  }
});

test("the bands of a moment are the allocations that are live", () => {
  for (let point = 0; point < STACK.length; point += 7) {
    const found = STACK.bandsAt(GROUPING, point)
      .filter(({ box }) => box >= 0)
      .map(({ box }) => own[box]);
    assert.deepEqual(new Set(found), new Set(own.filter((each) => each.start <= event[point] && event[point] < each.end)));
    assert.deepEqual(
      STACK.liveAt(event[point]).map((box) => boxes.size[box]),
      found.map(({ size }) => size).sort((a, b) => b - a),
    );
  }
});

test("a pixel shows its highest moment, or what still holds", () => {
  for (const axis of ["event", "time"] as const) {
    const values = STACK.points[axis];
    for (const [from, to, width] of [
      [0, values[values.length - 1], 50],
      [0, values[values.length - 1], 3000],
      [values[20] + 0.5, values[60], 9],
    ]) {
      STACK.pixels(axis, from, to, width).forEach((point, pixel) => {
        const [start, end] = [from + ((to - from) * pixel) / width, from + ((to - from) * (pixel + 1)) / width];
        const last = pixel === width - 1;
        const inside = [...values.keys()].filter((each) => values[each] >= start && (values[each] < end || (last && values[each] <= end)));
        if (inside.length) assert.equal(live[point], Math.max(...inside.map((each) => live[each])));
        else assert.equal(point, Math.max([...values].filter((value) => value < end).length - 1, 0));
      });
    }
  }
});
