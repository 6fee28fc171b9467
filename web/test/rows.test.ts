import assert from "node:assert/strict";
import { test } from "node:test";
import { type ColumnOf, chosen, csv, fitting, kindsOf, sortable, tableOf, wantedWidths, windowOf } from "../src/core/rows";
import type { TableData } from "../src/data/documents";

interface Row {
  name: string;
  ns: number | null;
}
const columns: ColumnOf<Row>[] = [
  ["total", "ns", (row) => row.ns],
  ["kernel", "words", (row) => row.name],
  ["sizes", "words", () => ""],
];
const table = (rows: Row[]): TableData => {
  const made = tableOf("kernels", columns, rows);
  return { ...made, columns: made.columns.map((column) => ({ ...column, first: column.name !== "sizes" })) };
};
const some = table([
  { name: "gemm tn", ns: 5 },
  { name: "gelu", ns: null },
  { name: "gemm nn", ns: 7 },
]);
const names = (found: number[]) => found.map((at) => some.cells[at][1]);

test("what is not known comes last, up and down", () => {
  assert.deepEqual(names(chosen(some, "", { by: 0, down: true })), ["gemm nn", "gemm tn", "gelu"]);
  assert.deepEqual(names(chosen(some, "", { by: 0, down: false })), ["gemm tn", "gemm nn", "gelu"]);
  assert.deepEqual(chosen(some, "", { by: -1, down: true }), [0, 1, 2]);
});

test("a filter wants every word, literally", () => {
  assert.deepEqual(names(chosen(some, "NN gemm", { by: 0, down: true })), ["gemm nn"]);
  assert.deepEqual(chosen(some, "g.*", { by: 0, down: true }), []);
  assert.deepEqual(
    chosen(some, "hidden", { by: -1, down: true }, (at) => (at ? "hidden" : "")),
    [1, 2],
  );
});

test("cells have units, and a dash where nothing is known", () => {
  assert.deepEqual(some.cells, [
    ["5 ns", "gemm tn", "–"],
    ["–", "gelu", "–"],
    ["7 ns", "gemm nn", "–"],
  ]);
  assert.deepEqual(kindsOf(some), ["number", "name", "words"]);
});

test("words and known values have an order, a text that its author wrote has none", () => {
  const text = tableOf<Row>("t", [["when", "text", (row) => row.name]], [{ name: "12 us", ns: 1 }]);
  assert.equal(sortable(text, 0), false);
  assert.deepEqual(
    [0, 1].map((at) => sortable(some, at)),
    [true, true],
  );
});

test("columns that are not first go first, then rows are stacked", () => {
  const wanted = [88, 220, 180];
  assert.deepEqual(fitting(some, wanted, 728), { widths: [88, 360, 280], stacked: false });
  assert.deepEqual(fitting(some, wanted, 400), { widths: [88, 312, 0], stacked: false });
  assert.deepEqual(fitting(some, wanted, 250), { widths: [88, 162, 0], stacked: false });
  assert.equal(fitting(some, wanted, 200).stacked, true);
});

test("a column needs room for its longest text, and long names are cut short", () => {
  const [total, kernel, sizes] = wantedWidths(table([{ name: "k".repeat(300), ns: 123_456_789_012 }]));
  assert.ok(total >= 7.5 * "123 s".length);
  assert.equal(kernel, 260);
  assert.ok(sizes < 100);
});

test("CSV has values, not texts, and no formula", () => {
  const odd = table([
    { name: '=cmd("a,b")', ns: 3 },
    { name: "-1", ns: null },
    { name: "a\nb", ns: -4 },
  ]);
  assert.equal(csv(odd, [0, 1, 2]), ["total (ns),kernel,sizes", `3,"'=cmd(""a,b"")",`, ",'-1,", '-4,"a\nb",', ""].join("\r\n"));
});

test("a window holds the rows in view, at any place", () => {
  for (const top of [0, 13, 999, 27_000, 1e6]) {
    const { from, to } = windowOf(1000, 28, top, 400, 2);
    for (let at = 0; at < 1000; at++) {
      const seen = at * 28 < top + 400 && (at + 1) * 28 > top;
      assert.ok(!seen || (from <= at && at < to), `${at} at ${top}`);
    }
    assert.ok(to - from <= 400 / 28 + 6);
  }
});
