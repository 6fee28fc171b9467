import assert from "node:assert/strict";
import { test } from "node:test";
import { fromAddress, INITIAL, type State, Store, toAddress } from "../src/core/store";

const FULL: State = {
  view: { from: -20, to: 237_040_000 },
  selection: { kind: "event", trace: 1, event: 4711 },
  tab: "roofline",
  filter: "<img src=x onerror=alert(1)> & = #",
  search: "aten::add\u202e",
  pinned: ["0/gpu0/stream7", "1/gpu0/stream 7&x"],
  open: ["0/thread 3"],
  align: "ProfilerStep#3",
  basis: "recording" as const,
  pair: 2,
  marks: [5, 17],
  notes: [{ from: -3, to: 9, text: "why_is this slow? & <b>\nhere" }],
};

test("an address restores everything", () => {
  assert.deepEqual(fromAddress(`#${toAddress(FULL)}`), FULL);
  assert.equal(toAddress(INITIAL), "");
  assert.deepEqual(fromAddress(""), INITIAL);
  for (const selection of [
    { kind: "range", range: { from: 1, to: 9 } },
    { kind: "finding", trace: 0, rule: "sync_calls" },
  ] as const) {
    assert.deepEqual(fromAddress(toAddress({ ...INITIAL, selection })).selection, selection);
  }
});

test("an address that is not sound is as good as none", () => {
  const addresses = [
    "view=9_1&tab=__proto__",
    "view=1_2_3",
    "view=NaN_1e9",
    "select=event.0.__proto__",
    "select=range.5",
    "mark=1e400&mark=x",
    "note=9_1_late&note=x_2_a&note=1_2_",
    "%%%&=&#",
  ];
  for (const address of addresses) assert.deepEqual(fromAddress(address), INITIAL, address);
  assert.equal(fromAddress(`pin=${"&pin=a".repeat(5000)}`).pinned.length, 2);
  assert.equal(fromAddress(`search=${"x".repeat(1e5)}`).search.length, 500);
});

test("listeners hear once of what they asked about", async () => {
  const store = new Store();
  const heard: string[] = [];
  const stop = store.on(["view", "tab"], (state, changed) => heard.push(`${state.tab} ${[...changed].sort()}`));
  store.on(["filter"], () => heard.push("filter"));
  store.set({ tab: "flame" });
  store.set({ view: { from: 0, to: 1 }, search: "" });
  await Promise.resolve();
  store.set({ tab: "flame" });
  await Promise.resolve();
  stop();
  store.set({ tab: "kernels" });
  await Promise.resolve();
  assert.deepEqual(heard, ["flame tab,view"]);
});
