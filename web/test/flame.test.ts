import assert from "node:assert/strict";
import { test } from "node:test";
import { around, Boxes, bottomUp, depthOf, endOf, foldedLayers, functionsOf, labelOf, laidOut, pathOf } from "../src/core/flame";
import { matches } from "../src/core/searching";
import type { Events, TraceFacts } from "../src/data/events";

const FLAME = { names: ["Net_0", "aten::mm", "gemm", "a > b", "a"], kinds: ["module", "op", "kernel"], passes: ["forward", "backward"] };

// Net_0 { aten::mm { gemm 60 }, "a > b" 5, "a" { gemm 3 } }, and a kernel of 32 in the backward pass beside it.
function made(): Boxes {
  const columns = {
    above: Float64Array.of(-1, 0, 1, 0, 0, 4, -1),
    kind: Float64Array.of(0, 1, 2, 1, 1, 2, 2),
    name: Float64Array.of(0, 1, 2, 3, 4, 2, 2),
    forward: Float64Array.of(0, 0, 60, 5, 0, 3, 0),
    backward: Float64Array.of(0, 0, 0, 0, 0, 0, 32),
  };
  return new Boxes(columns, FLAME);
}

test("a box has the time of all that is inside", () => {
  const boxes = made();
  assert.deepEqual([...boxes.totals(-1)], [68, 60, 60, 5, 3, 3, 32, 100]);
  assert.deepEqual([...boxes.totals(1)], [0, 0, 0, 0, 0, 0, 32, 32]);
  assert.deepEqual(boxes.passesWithTime(), [0, 1]);
  for (const box of boxes.all) assert.equal(boxes.timeIn(box, 0), boxes.totals(0)[box.number]);
});

test("a path leads back to its box, whatever its names hold", () => {
  const boxes = made();
  for (const box of boxes.all) assert.equal(boxes.find(pathOf(box)), box, pathOf(box));
  assert.equal(pathOf(boxes.all[2]), "> Net_0 > aten::mm > gemm");
  for (const none of ["", "Net_0", "> Net", "> Net_0 > ", "> Net_0 > aten::mm > gemm > gemm"]) assert.equal(boxes.find(none), null, none);
  assert.deepEqual([...boxes.inside(boxes.all[0])].sort(), [0, 1, 2, 3, 4, 5]);
});

test("parts fill what they are in, and no width is without a word", () => {
  const boxes = made();
  for (const thinnest of [0, 0.04, 0.06, 0.4]) {
    const placed = laidOut(boxes, boxes.root, boxes.totals(-1), thinnest);
    for (const { box, from, share, small, ns } of placed.filter((each) => !each.small)) {
      const inside = placed.filter((each) => (each.small ? each.box : each.box.above) === box);
      const sum = inside.reduce((whole, each) => whole + each.ns, 0);
      const own = box.own.reduce((whole, each) => whole + each, 0);
      assert.ok(sum <= ns - own + 1e-9 && (ns - own - sum) / 100 < Math.max(thinnest, 1e-9), `${box.name} at ${thinnest}`);
      for (const each of inside) assert.ok(each.from >= from - 1e-12 && each.from + each.share <= from + share + 1e-12);
      assert.equal(small, 0);
    }
  }
  const few = laidOut(boxes, boxes.root, boxes.totals(-1), 0.06);
  const rest = few.find(({ small }) => small);
  assert.deepEqual([rest?.small, rest?.ns, rest && depthOf(rest)], [2, 8, 2]);
});

test("the focus is as wide as the whole, and so is what it is in", () => {
  const boxes = made();
  const placed = laidOut(boxes, boxes.all[1], boxes.totals(-1), 0);
  assert.deepEqual(
    placed.map(({ box, share }) => [box.name, share]),
    [
      ["all", 1],
      ["Net_0", 1],
      ["aten::mm", 1],
      ["gemm", 1],
    ],
  );
  const none = laidOut(boxes, boxes.all[1], boxes.totals(1), 0);
  assert.ok(none.every(({ share, from }) => Number.isFinite(share) && Number.isFinite(from)));
});

test("a path in the filter shows its work and nothing else", () => {
  const facts = { kernels: [], namesWith: (text: string) => new Set(text === "mm" ? [0] : []) } as unknown as TraceFacts;
  const events = { event: Float64Array.of(7, 8, 9), nameNumber: Float64Array.of(0, 0, 1), case: Float64Array.of(-1, -1, -1) } as Events;
  const shown = (search: string, filter: string, work: Set<number> | null) => {
    const test = matches({ facts }, { search, filter }, work);
    return test && [0, 1, 2].filter((at) => test(events, at));
  };
  assert.equal(shown("", "> Net_0", null), null, "all, until the work is known");
  assert.deepEqual(shown("", "> Net_0", new Set([7, 9])), [0, 2]);
  assert.deepEqual(shown("mm", "> Net_0", new Set([7, 9])), [0]);
  assert.deepEqual(shown("", "mm", null), [0, 1]);
});

test("layers that differ by their number stand together, and a path finds all of them", () => {
  const flame = { names: ["Model", "Block_0", "Block_1", "mm", "add"], kinds: ["module", "kernel"], passes: ["forward"] } as const;
  const columns = {
    above: Float64Array.from([-1, 0, 0, 1, 2, 2]),
    name: Float64Array.from([0, 1, 2, 3, 3, 4]),
    kind: Float64Array.from([0, 0, 0, 1, 1, 1]),
    forward: Float64Array.from([0, 0, 0, 10, 20, 5]),
  };
  const boxes = new Boxes(columns, flame as never);
  const folded = foldedLayers(boxes);
  assert.deepEqual(
    folded.all.map((box) => [labelOf(box), folded.totals(-1)[box.number]]),
    [
      ["Model", 35],
      ["Block × 2", 35],
      ["mm", 30],
      ["add", 5],
    ],
  );
  assert.deepEqual(
    boxes.findAll(pathOf(folded.all[2])).map(({ number }) => number),
    [3, 4],
  );
  const up = bottomUp(folded);
  assert.deepEqual(
    up.root.parts.map((box) => [box.name, up.totals(-1)[box.number], labelOf(box.parts[0])]),
    [
      ["mm", 30, "Block × 2"],
      ["add", 5, "Block × 2"],
    ],
  );
});

test("a sandwich has the callers of a function, and what it calls, with its time", () => {
  const boxes = made(),
    { callers, callees } = around(boxes, "gemm");
  const tree = (each: Boxes) => each.all.map((box) => [pathOf(box), each.totals(-1)[box.number]]);
  assert.deepEqual(tree(callers), [
    ["> gemm", 95],
    ["> gemm > aten::mm", 60],
    ["> gemm > aten::mm > Net_0", 60],
    ["> gemm > a", 3],
    ["> gemm > a > Net_0", 3],
  ]);
  assert.deepEqual(tree(callees), [["> gemm", 95]]);
  assert.deepEqual(tree(around(boxes, "Net_0").callees).slice(0, 2), [
    ["> Net_0", 68],
    ["> Net_0 > aten::mm", 60],
  ]);
  assert.deepEqual(tree(around(boxes, "nowhere").callees), []);
  assert.deepEqual(
    functionsOf(boxes, -1).map(({ name, own, total }) => [name, own, total]),
    [
      ["Net_0", 0, 68],
      ["aten::mm", 0, 60],
      ["gemm", 95, 95],
      ["a > b", 5, 5],
      ["a", 0, 3],
    ],
  );
  assert.deepEqual(["> Net_0 > aten::mm", "> gemm", "gemm"].map(endOf), ["aten::mm", "gemm", null]);
});
