import assert from "node:assert/strict";
import { test } from "node:test";
import type { Shown } from "../src/core/context";
import { framed, placed, pointed } from "../src/core/places";

const idle = { key: "idle_gaps", frame: [1000, 1700] as [number, number], shades: [], events: [] };
const again = { key: "idle_gaps_2", frame: null, shades: [], events: [] };
const saving = { at_most_ns: null, saves_ns: null, evidence: {} };
const findings = [
  { rule: "idle_gaps", title: "first", ...saving },
  { rule: "idle_gaps", title: "second", ...saving },
];
const fix = { key: "fix_compile", frame: [0, 700] as [number, number], shades: [], events: [] };
const cards = [{ key: "fix_compile", order: "torch.compile(model)", why: "5 launches", ns: 225_000, low_ns: 217_000, high_ns: 247_000 }];
const look = { findings, step: { ns: 253_000 } };
const entry = { look, places: [idle, again], fix_places: [fix], answers: { cards } };
const trace = { index: 1, zero: 400, facts: { end: 10_000, steps: [] }, entry } as unknown as Shown;

test("a finding is known by its key", () => {
  assert.equal(placed(trace, "idle_gaps_2")?.title, "second");
  assert.equal(placed(trace, "fix_compile")?.saves, "253 us → about 225 us (217 us to 247 us)");
  assert.equal(placed(trace, "idle_gaps")?.place, idle);
  assert.equal(placed(trace, "none"), null);
  assert.equal(placed(undefined, "idle_gaps"), null);
});

test("it fills most of the screen, in shared time", () => {
  const range = framed(trace, idle);
  assert.deepEqual(range && [Math.round(range.from), Math.round(range.to)], [450, 1450]);
  assert.equal(framed(trace, again), null);
  assert.equal(framed(trace, fix)?.from, -400); // nothing lies before the first event
});

test("one without a time leaves the view as it is", () => {
  assert.deepEqual(pointed(trace, again), { selection: { kind: "finding", trace: 1, rule: "idle_gaps_2" } });
  assert.ok(pointed(trace, idle).view);
});
