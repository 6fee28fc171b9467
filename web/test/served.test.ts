import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { covers, Latest, ServedSource, withMargin } from "../src/core/servedsource";
import type { Packed } from "../src/data/documents";
import { Server } from "../src/data/server";
import { madeEvents, madeFacts } from "./made";

// As packing.py writes columns.
function packed(columns: Record<string, number[]>): Packed {
  const bytes: number[] = [];
  for (const values of Object.values(columns)) {
    for (const value of values) {
      let folded = value < 0 ? -2 * value - 1 : 2 * value;
      for (; folded > 127; folded = Math.floor(folded / 128)) bytes.push((folded % 128) + 128);
      bytes.push(folded);
    }
  }
  const rows = Object.values(columns)[0]?.length ?? 0;
  return { rows, columns: Object.keys(columns), differences: [], data: deflateSync(Uint8Array.from(bytes)).toString("base64") };
}

const facts = madeFacts({
  names: ["op", "cudaLaunchKernel", "gemm"],
  lanes: [{ gpu_number: 0 }, { gpu_number: null }],
  kernels: [{ role: "gemm" }],
  launchNames: [1],
});
const NO_RUNS = { track: [], row: [], group: [], first: [], count: [], full: [] };

function answer(runs: Record<string, number[]>, ns: number[], lanes: number[], rows: number[]) {
  const boxes = packed({ event: lanes.map((_, at) => at + 10), lane: lanes, row: rows });
  return {
    bands: { runs: packed(runs), busy: packed({ ns }) },
    strips: { runs: packed(NO_RUNS), busy: packed({ ns: [] }) },
    boxes,
  };
}

test("a tile holds the busy time of each pixel, and the boxes of each row", async () => {
  const asked: string[] = [];
  const runs = { track: [0, 0, 2], row: [0, 0, 1], group: [3, 3, -1], first: [0, 4, 1], count: [2, 3, 2], full: [0, 1, 0] };
  const source = new ServedSource(async <Answer>(path: string) => {
    asked.push(path);
    return answer(runs, [5, 6, 7, 8], [0, 0, 2], [0, 1, 1]) as Answer;
  }, facts);
  const tile = await source.tile({ from: 100, to: 145 }, 4, [0, 2]);
  assert.deepEqual(asked, ["tile?from=88&to=157&width=6&tracks=0,2"]);
  assert.deepEqual([tile.from, tile.to, tile.width], [88, 157, 6]);
  const [first, second] = tile.rows;
  // 69 ns in 6 pixels: edges at 0, 11, 23, 34, 46, 57, 69
  assert.deepEqual([...(first.bands.get(3) ?? [])], [5, 6, 0, 0, 11, 12]);
  assert.deepEqual([...(second.bands.get(-1) ?? [])], [0, 7, 8, 0, 0, 0]);
  assert.deepEqual([second.track, second.row, [...second.boxes.event]], [2, 1, [12]]);
  assert.deepEqual([...first.boxes.event], [10]);
});

test("a margin keeps the pixels where they are", () => {
  for (const [from, to, width] of [
    [0, 1e9, 1290],
    [12_345, 98_765_432, 777],
    [5e12, 5e12 + 1e7, 2580],
  ]) {
    const wanted = withMargin({ from, to }, width);
    assert.ok(wanted.from <= from && wanted.to >= to);
    const tile = { ...wanted, rows: [], strips: [] };
    assert.ok(covers(tile, { from, to }, width));
    const pixel = (to - from) / width;
    assert.ok(covers(tile, { from: from + 100 * pixel, to: to + 100 * pixel }, width), "moved by whole pixels");
    assert.ok(!covers(tile, { from: from + 0.5 * pixel, to: to + 0.5 * pixel }, width), "moved by half a pixel");
    assert.ok(!covers(tile, { from: from + width * pixel, to: to + width * pixel }, width), "moved out of it");
    assert.ok(!covers(tile, { from, to: to - pixel * 10 }, width), "zoomed");
  }
});

test("a tile is asked for once, and again when a track is missing", async () => {
  let asked = 0;
  const source = new ServedSource(async <Answer>() => {
    asked += 1;
    return answer(NO_RUNS, [], [], []) as Answer;
  }, facts);
  const range = { from: 0, to: 1_000_000 };
  for (const tracks of [[1, 2], [2], [1, 2]]) await source.tile(range, 1000, tracks);
  assert.equal(asked, 1);
  await source.tile(range, 1000, [3]);
  assert.equal(asked, 2);
  await source.tile(range, 1000, []); // of a minimap
  await source.tile(range, 1000, [3]);
  assert.equal(asked, 3);
});

test("ranges and launch order are computed from the GPU work, host neighbours from what surrounds an event", async () => {
  const every = madeEvents(facts, [
    { start: 0, length: 40, lane: 1, row: 0, kind: 2 },
    { start: 5, length: 5, lane: 1, row: 1, name: 1, kind: 3, parent: 0 },
    { start: 12, length: 5, lane: 1, row: 1, name: 1, kind: 3, parent: 0 },
    { start: 20, length: 10, lane: 0, name: 2, launch: 1, case: 0 },
    { start: 30, length: 20, lane: 0, name: 2, launch: 2, case: 0 },
  ]);
  const columns = (rows: number[]) =>
    Object.fromEntries(Object.entries(every.columnsAt(rows)).map(([name, values]) => [name, [...values]]));
  const answers: Record<string, number[]> = { work: [0, 1, 3, 4], "event/0": [0, 1, 2, 3, 4], "event/1": [0, 1, 2, 3, 4] };
  const asked: string[] = [];
  const source = new ServedSource(async <Answer>(path: string) => {
    asked.push(path);
    return { events: packed(columns(answers[path])) } as Answer;
  }, facts);
  const stats = await source.rangeStats({ from: 0, to: 40 });
  assert.deepEqual([stats.gpus, stats.busyNs, stats.launches, stats.kernels], [1, 20, 2, [{ number: 0, ns: 20, count: 2 }]]);
  assert.deepEqual([...(await source.launches(0)).event], [3, 4]);
  assert.deepEqual([await source.neighbour(null, "next", 25), await source.neighbour(3, "next", 0)], [4, 4]);
  assert.equal(await source.neighbour(4, "up", 0), 2);
  assert.deepEqual(asked, ["work"]);
  assert.deepEqual([await source.neighbour(0, "down", 0), await source.neighbour(1, "next", 0)], [1, 2]);
  assert.deepEqual(asked, ["work", "event/0", "event/1"]);
});

test("one question is on its way, and the latest follows", async () => {
  const latest = new Latest();
  const gates: (() => void)[] = [];
  const put = (name: string) => latest.put(() => new Promise<string>((resolve) => gates.push(() => resolve(name))));
  const outcomes = ["a", "b", "c"].map((name) => put(name).catch((problem: Error) => problem.name));
  assert.equal(gates.length, 1);
  gates[0]();
  assert.equal(await outcomes[0], "a");
  assert.equal(await outcomes[1], "AbortError");
  await new Promise((later) => setTimeout(later));
  assert.equal(gates.length, 2);
  gates[1]();
  assert.equal(await outcomes[2], "c");
});

const reply = (status: number, data: unknown) =>
  new Response(JSON.stringify(data), { status, headers: { "content-type": "application/json" } });

test("an answer is waited for while a trace is opened", async () => {
  const answers = [reply(202, { state: "opening", seconds: 1 }), reply(202, { seconds: 2 }), reply(200, { ready: true })];
  const server = new Server(
    async () => answers.shift() as Response,
    async () => {},
  );
  const seen: unknown[] = [];
  assert.deepEqual(await server.ask("trace/0", { opening: ({ seconds }) => seen.push(seconds) }), { ready: true });
  assert.deepEqual(seen, [1, 2]);
});

test("a failure is one line", async () => {
  const failing = (answer: () => Promise<Response>) => new Server(answer).ask("trace/0");
  await assert.rejects(
    failing(async () => reply(400, { error: "not a trace" })),
    /^Error: not a trace$/,
  );
  await assert.rejects(
    failing(async () => new Response("", { status: 500 })),
    /^Error: the server answered 500$/,
  );
  await assert.rejects(
    failing(() => Promise.reject(new TypeError("Failed to fetch"))),
    /the server does not answer: run/,
  );
});
