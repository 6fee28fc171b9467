import assert from "node:assert/strict";
import { test } from "node:test";
import type { Shown } from "../src/core/context";
import { framed, placed, pointed } from "../src/core/places";

const idle = { key: "idle_gaps", frame: [1000, 1700] as [number, number], shades: [], events: [] };
const again = { key: "idle_gaps_2", frame: null, shades: [], events: [] };
const findings = [{ rule: "idle_gaps" }, { rule: "idle_gaps" }];
const trace = { index: 1, zero: 400, entry: { look: { findings }, places: [idle, again] } } as unknown as Shown;

test("a finding is known by its key", () => {
  assert.equal(placed(trace, "idle_gaps_2")?.finding, findings[1]);
  assert.equal(placed(trace, "idle_gaps")?.place, idle);
  assert.equal(placed(trace, "none"), null);
  assert.equal(placed(undefined, "idle_gaps"), null);
});

test("it fills most of the screen, in shared time", () => {
  const range = framed(trace, idle);
  assert.deepEqual(range && [Math.round(range.from), Math.round(range.to)], [450, 1450]);
  assert.equal(framed(trace, again), null);
});

test("one without a time leaves the view as it is", () => {
  assert.deepEqual(pointed(trace, again), { selection: { kind: "finding", trace: 1, rule: "idle_gaps_2" } });
  assert.ok(pointed(trace, idle).view);
});
