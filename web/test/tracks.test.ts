import assert from "node:assert/strict";
import { test } from "node:test";
import { frameText } from "../src/base/frames";
import type { Shown } from "../src/core/context";
import { allowed, zoomed } from "../src/core/moving";
import { layOut, opened, type Track, toggled } from "../src/core/tracks";
import type { Lane } from "../src/data/documents";
import { madeFacts } from "./made";

const lane = (label: string, key: string, more: Partial<Lane> = {}): Partial<Lane> => ({
  label,
  key,
  rows: 2,
  gpu: false,
  launches: 0,
  ...more,
});
const LANES = [
  lane("GPU 0 · stream 7", "gpu0/stream7", { gpu: true, kind: "stream", gpu_number: 0 }),
  lane("GPU 1 · stream 9", "gpu1/stream9", { gpu: true, kind: "stream", gpu_number: 1 }),
  lane("main", "1/1", { kind: "thread", launches: 40 }),
  lane("main", "1/1/python", { kind: "python", rows: 30 }),
  lane("loader", "1/2", { kind: "thread" }),
  lane("tqdm", "1/3/python", { kind: "python" }),
  lane("tqdm", "1/4/python", { kind: "python" }),
];

function shown(index = 0): Shown {
  const facts = madeFacts({ names: [], lanes: LANES });
  Object.assign(facts, { end: 1000 });
  return { index, facts, entry: { title: `trace ${index}` }, zero: 100 * index } as unknown as Shown;
}

const NOTHING = { pinned: [], open: [] };
const labels = (tracks: Track[]) => tracks.map((track) => track.label);

test("the GPU comes first, then the thread that launches; the rest is folded", () => {
  const { moving } = layOut([shown()], NOTHING);
  assert.deepEqual(labels(moving), [
    "GPU 0",
    "stream 7",
    "GPU 1",
    "stream 9",
    "main · launches",
    "Python frames",
    "1 other thread",
    "2 idle threads",
  ]);
});

test("tracks lie below each other", () => {
  const { moving, height } = layOut([shown()], NOTHING);
  moving.reduce((top, track) => {
    assert.equal(track.top, top);
    return top + track.height;
  }, 0);
  assert.equal(height, (moving.at(-1)?.top ?? 0) + (moving.at(-1)?.height ?? 0));
});

test("a fold opens and closes, one that is usually open closes and opens", () => {
  const find = (open: readonly string[], label: string) =>
    layOut([shown()], { pinned: [], open }).moving.find((each) => each.label === label);
  for (const [label, inside] of [
    ["2 idle threads", "tqdm"],
    ["1 other thread", "loader"],
    ["GPU 1", "stream 9"],
  ]) {
    const before = find([], label);
    assert.ok(before);
    const once = toggled([], before);
    const after = find(once, label);
    assert.ok(after);
    assert.equal(before.open, !after.open);
    assert.equal(find(once, inside) !== undefined, after.open);
    assert.deepEqual(toggled(once, after), []);
  }
});

test("a pinned track leaves its place and stays on top", () => {
  const { pinned, moving, pinnedHeight } = layOut([shown()], { pinned: ["0/1/1"], open: [] });
  assert.deepEqual(labels(pinned), ["main · launches"]);
  assert.equal(pinnedHeight, pinned[0].height);
  assert.ok(!labels(moving).includes("main · launches"));
});

test("several traces have their GPUs together and their threads below", () => {
  const { moving } = layOut([shown(0), shown(1)], NOTHING);
  const kinds = moving.map(({ trace, gpu, lane: at }) => `${trace}${gpu >= 0 || (at >= 0 && LANES[at].gpu) ? "g" : ""}`);
  assert.deepEqual(kinds.join(" "), "0 0g 0g 0g 0g 1 1g 1g 1g 1g 0 1");
});

test("what is needed to see a lane is opened, and nothing else", () => {
  for (const traces of [[shown()], [shown(0), shown(1)]]) {
    LANES.forEach((_, at) => {
      const open = opened(traces[0], ["~0/gpu0"], at, traces.length > 1);
      const { moving } = layOut(traces, { pinned: [], open });
      assert.ok(moving.some((track) => track.trace === 0 && track.lane === at));
    });
    assert.deepEqual(opened(traces[0], [], 0, traces.length > 1), []);
  }
});

test("a view is never too short, and never leaves all traces", () => {
  const traces = [shown(0), shown(1)];
  const near = allowed({ from: 5, to: 6 }, traces);
  assert.ok(near.to - near.from >= 20);
  const far = allowed({ from: 1e9, to: 1e9 + 100 }, traces);
  assert.ok(far.from < 1000 && far.to > 900);
  const zoom = zoomed({ from: 0, to: 100 }, 0.5, 30);
  assert.deepEqual(zoom, { from: 15, to: 65 });
});

test("while frames are open the GPUs stay above them; those of PyTorch have a fold of their own", () => {
  const own = shown();
  own.facts.lanes.push(lane("main", "1/1/torch", { kind: "python", rows: 40 }) as Lane);
  const { pinned, moving } = layOut([own], { pinned: [], open: ["0/1/1/frames"] });
  assert.deepEqual(labels(pinned), ["GPU 0", "stream 7", "GPU 1", "stream 9"]);
  assert.ok(pinned.every((track) => track.pinned && !track.byHand));
  assert.deepEqual(labels(moving).slice(0, 4), ["main · launches", "Python frames", "", "frames of PyTorch"]);
  assert.deepEqual(opened(own, [], own.facts.lanes.length - 1, false), ["0/1/1/frames", "0/1/1/torch"]);
});

test("a frame is read by its function", () => {
  assert.equal(
    frameText("lib/python3/site-packages/transformers/models/llama/modeling_llama.py(312): forward"),
    "forward  …/llama/modeling_llama.py:312",
  );
  assert.equal(frameText("train.py(7): main"), "main  train.py:7");
  assert.equal(frameText("nn.Module: LlamaMLP_3"), "LlamaMLP_3");
});
