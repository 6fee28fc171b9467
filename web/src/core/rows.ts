// What a table shows of its rows: those that match a filter, sorted, as many columns as there is room for, and as CSV.

export type Cell = string | number | boolean | null;

export interface Column<Row> {
  title: string;
  kind: "name" | "words" | "number" | "share"; // a name is text out of the trace, and stays on one line
  value: (row: Row) => Cell; // what is compared, and what CSV gets
  text?: (row: Row) => string; // what is shown, where that is not the value
  unit?: string; // of the value, for CSV
  optional?: boolean; // shown where there is room
  most?: number; // pixels that a long text would like, where that is more than for others of its kind
  hint?: (row: Row) => string;
}

export interface Sorting {
  by: number; // -1: as they came
  down: boolean;
}

// Rows that contain every word of the filter, in any of their texts. What is not known comes last, whichever way it is sorted.
export function chosen<Row>(
  rows: readonly Row[],
  words: (row: Row) => string,
  filter: string,
  columns: Column<Row>[],
  sorting: Sorting,
): Row[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => {
    const text = wanted.length ? words(row).toLowerCase() : "";
    return wanted.every((word) => text.includes(word));
  });
  const column = columns[sorting.by];
  if (!column) return found;
  const sign = sorting.down ? -1 : 1;
  const keyed = found.map((row) => ({ row, value: column.value(row) }));
  return keyed.sort((a, b) => compared(a.value, b.value, sign)).map(({ row }) => row);
}

function compared(a: Cell, b: Cell, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a < b ? -sign : a > b ? sign : 0;
}

export function cellText<Row>(column: Column<Row>, row: Row): string {
  const text = column.text ? column.text(row) : column.value(row);
  return text === null || text === "" ? "–" : String(text);
}

// What a text column would like to have at most, and what it needs at least: texts are cut short, or take several lines. Numbers
// are never cut.
const MOST = { share: 120, number: Number.POSITIVE_INFINITY, name: 220, words: 170 };
const LEAST = { share: Number.POSITIVE_INFINITY, number: Number.POSITIVE_INFINITY, name: 140, words: 100 };
const LETTER = 8; // pixels of a letter at the size of tables, and the room beside a text
const ROOM = 26;
const MEASURED = 500; // rows

// The width that each column would like to have, from its longest text.
export function wantedWidths<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): number[] {
  return columns.map((column) => {
    const { kind, most, title } = column;
    if (kind === "share") return most ?? MOST.share;
    const letters = rows.slice(0, MEASURED).reduce((longest, row) => Math.max(longest, cellText(column, row).length), title.length + 2);
    return Math.min(letters * LETTER + ROOM, most ?? MOST[kind]);
  });
}

// How wide each column is in a table of this width. Optional columns are shown where all have what they want; one that is not
// shown has no width. Texts share what is left. Where there is no room for the least, rows are stacked.
export function fitting<Row>(
  columns: readonly Column<Row>[],
  wanted: readonly number[],
  width: number,
): { widths: number[]; stacked: boolean } {
  const likes = [...wanted];
  for (let at = columns.length - 1; at >= 0 && sum(likes) > width; at--) {
    if (columns[at].optional) likes[at] = 0;
  }
  const least = likes.map((each, at) => Math.min(each, LEAST[columns[at].kind]));
  const left = width - sum(least);
  const texts = likes.map((each, at) => (["name", "words"].includes(columns[at].kind) ? each : 0));
  if (left < 0 || !sum(texts)) return { widths: least, stacked: left < 0 };
  return { widths: least.map((each, at) => each + (left * texts[at]) / sum(texts)), stacked: false };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

// All columns, whether there is room for them or not. A spreadsheet would take a text that begins with `=` for a formula.
export function csv<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const head = columns.map(({ title, unit }) => quoted(unit ? `${title} (${unit})` : title));
  const line = (row: Row) => columns.map((column) => quoted(column.value(row)));
  return `${[head, ...rows.map(line)].map((cells) => cells.join(",")).join("\r\n")}\r\n`;
}

function quoted(value: Cell): string {
  if (value === null) return "";
  if (typeof value !== "string") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Which of many rows of one height are near what a box shows of them.
export function windowOf(count: number, height: number, top: number, box: number, more = 20): { from: number; to: number } {
  const from = Math.max(0, Math.floor(top / height) - more);
  return { from: Math.min(from, count), to: Math.min(count, Math.ceil((top + box) / height) + more) };
}
