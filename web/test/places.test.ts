import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context, Shown } from "../src/core/context";
import { framed, insightOf, lead, pointed } from "../src/core/places";
import { Store } from "../src/core/store";

const place = (frame: [number, number] | null) => ({ frame, shades: [], events: [] });
const insight = (key: string, frame: [number, number] | null) => ({ key, title: key, detail: "", about: "", place: place(frame) });
const idle = insight("idle_gaps", [1000, 1700]);
const again = insight("idle_gaps_2", null);
const fix = insight("fix_compile", [0, 700]);
const entry = { insights: [fix, idle, again] };
const trace = { index: 1, zero: 400, facts: { end: 10_000, steps: [] }, entry } as unknown as Shown;

test("a finding is known by its key", () => {
  assert.equal(insightOf(trace, "idle_gaps_2"), again);
  assert.equal(insightOf(trace, "none"), null);
  assert.equal(insightOf(undefined, "idle_gaps"), null);
});

test("it fills most of the screen, in shared time", () => {
  const range = framed(trace, idle.place);
  assert.deepEqual(range && [Math.round(range.from), Math.round(range.to)], [450, 1450]);
  assert.equal(framed(trace, again.place), null);
  assert.equal(framed(trace, fix.place)?.from, -400); // nothing lies before the first event
});

test("one without a time leaves the view as it is", () => {
  assert.deepEqual(pointed(trace, again), { selection: { kind: "finding", trace: 1, rule: "idle_gaps_2" } });
  assert.ok(pointed(trace, idle).view);
});

test("a row leads to a finding, or to a search that holds any text", async () => {
  const store = new Store(),
    context = { store } as unknown as Context;
  await lead(context, trace, "finding idle_gaps");
  assert.deepEqual(store.state.selection, { kind: "finding", trace: 1, rule: "idle_gaps" });
  await lead(context, trace, "search a  b finding");
  assert.equal(store.state.search, "a  b finding");
});
