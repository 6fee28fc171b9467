import assert from "node:assert/strict";
import { test } from "node:test";
import { type Column, cellText, chosen, csv, fitting, wantedWidths, windowOf } from "../src/core/rows";

interface Row {
  name: string;
  ns: number | null;
}
const columns: Column<Row>[] = [
  { title: "total", kind: "number", unit: "ns", value: (row) => row.ns, text: (row) => `${row.ns} ns` },
  { title: "kernel", kind: "name", value: (row) => row.name },
  { title: "sizes", kind: "words", value: () => "", optional: true },
];
const rows: Row[] = [
  { name: "gemm tn", ns: 5 },
  { name: "gelu", ns: null },
  { name: "gemm nn", ns: 7 },
];
const names = (found: Row[]) => found.map((row) => row.name);
const words = (row: Row) => row.name;

test("what is not known comes last, up and down", () => {
  assert.deepEqual(names(chosen(rows, words, "", columns, { by: 0, down: true })), ["gemm nn", "gemm tn", "gelu"]);
  assert.deepEqual(names(chosen(rows, words, "", columns, { by: 0, down: false })), ["gemm tn", "gemm nn", "gelu"]);
  assert.deepEqual(chosen(rows, words, "", columns, { by: -1, down: true }), rows);
});

test("a filter wants every word, literally", () => {
  assert.deepEqual(names(chosen(rows, words, "NN gemm", columns, { by: 0, down: true })), ["gemm nn"]);
  assert.deepEqual(chosen(rows, words, "g.*", columns, { by: 0, down: true }), []);
});

test("a cell without a value is a dash", () => {
  assert.equal(cellText(columns[2], rows[0]), "–");
  assert.equal(cellText(columns[0], rows[0]), "5 ns");
});

test("optional columns go first, then rows are stacked", () => {
  const wanted = [88, 220, 180];
  assert.deepEqual(fitting(columns, wanted, 728), { widths: [88, 360, 280], stacked: false });
  assert.deepEqual(fitting(columns, wanted, 400), { widths: [88, 312, 0], stacked: false });
  assert.deepEqual(fitting(columns, wanted, 250), { widths: [88, 162, 0], stacked: false });
  assert.equal(fitting(columns, wanted, 200).stacked, true);
  assert.deepEqual(fitting(columns.slice(0, 1), [88], 200), { widths: [88], stacked: false });
});

test("a column needs room for its longest text, and long names are cut short", () => {
  const long: Row[] = [{ name: "k".repeat(300), ns: 123_456_789_012 }];
  const [total, kernel, sizes] = wantedWidths(columns, long);
  assert.ok(total >= 7.5 * "123456789012 ns".length);
  assert.equal(kernel, 220);
  assert.ok(sizes < 100);
});

test("CSV has values, not texts, and no formula", () => {
  const odd: Row[] = [
    { name: '=cmd("a,b")', ns: 3 },
    { name: "-1", ns: null },
    { name: "a\nb", ns: -4 },
  ];
  assert.equal(csv(columns, odd), ["total (ns),kernel,sizes", `3,"'=cmd(""a,b"")",`, ",'-1,", '-4,"a\nb",', ""].join("\r\n"));
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
