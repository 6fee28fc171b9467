// What a table shows of its rows: those that match a filter, sorted, as many columns as there is room for, and as CSV. Rows are named
// by their place in the table.

import { bytesText, flopsText, numberText, percentText, rateText, timeText } from "../base/units";
import type { TableData } from "../data/documents";

export type Cell = string | number | boolean | null;
export type Kind = "name" | "words" | "number" | "share";

export interface Sorting {
  by: number; // -1: as they came
  down: boolean;
}

// The first column of words names its row; the first share is drawn as a bar.
export function kindsOf({ columns, heat }: TableData): Kind[] {
  const name = columns.findIndex(({ unit }) => unit === "words"),
    share = columns.findIndex((column) => column.unit === "share" && column.name.endsWith("share"));
  return columns.map(({ unit }, at) => {
    if (unit === "words") return at === name ? "name" : "words";
    return at === share && !heat ? "share" : "number";
  });
}

// Whether rows can be put in the order of a column: words, or values that are known. A text that its author wrote has neither.
export function sortable({ columns, values }: TableData, by: number): boolean {
  return columns[by].unit === "words" || values.some((row) => row[by] !== null);
}

// A table of what a person selected, which Python cannot have written: the name, the unit and the value of each column.
export type ColumnOf<Row> = [name: string, unit: string, value: (row: Row) => Cell, text?: (row: Row) => string];

const SHOWN: Record<string, (value: number) => string> = {
  ns: timeText,
  bytes: bytesText,
  flops: flopsText,
  gbps: rateText,
  share: percentText,
  count: (value) => numberText(value, 2),
};

export function tableOf<Row>(title: string, columns: readonly ColumnOf<Row>[], rows: readonly Row[], more = ""): TableData {
  const text = (row: Row, [, unit, value, own]: ColumnOf<Row>) => {
    const held = value(row);
    if (held === null || held === "") return "–";
    return own?.(row) ?? (typeof held === "number" ? (SHOWN[unit] ?? String)(held) : String(held));
  };
  const number = (value: Cell) => (typeof value === "number" ? value : null);
  return {
    title,
    more,
    columns: columns.map(([name, unit]) => ({ name, unit, first: true })),
    cells: rows.map((row) => columns.map((column) => text(row, column))),
    values: rows.map((row) => columns.map(([, , value]) => number(value(row)))),
  };
}

// Rows that contain every word of the filter, in any of their texts. What is not known comes last, whichever way it is sorted.
export function chosen(
  table: TableData,
  filter: string,
  sorting: Sorting,
  words: (at: number) => string = (at) => table.cells[at].join("\n"),
): number[] {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...table.cells.keys()].filter((at) => {
    const text = wanted.length ? words(at).toLowerCase() : "";
    return wanted.every((word) => text.includes(word));
  });
  const { by, down } = sorting;
  if (by < 0) return found;
  const key = (at: number) => (table.columns[by].unit === "words" ? table.cells[at][by] : table.values[at][by]);
  return found.sort((a, b) => compared(key(a), key(b), down ? -1 : 1));
}

function compared(a: Cell, b: Cell, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a < b ? -sign : a > b ? sign : 0;
}

// A table that leaves no column out is read in full: its texts take several lines. Others have a line for each row.
export function wraps({ columns }: TableData): boolean {
  return columns.every(({ first }) => first);
}

// What a text column would like to have at most, and what it needs at least: texts are cut short, or take several lines. Numbers
// are never cut.
const MOST = { share: 120, number: Number.POSITIVE_INFINITY, name: 260, words: 200 };
const READ = 520; // a sentence, which takes several lines

const LEAST = { share: Number.POSITIVE_INFINITY, number: Number.POSITIVE_INFINITY, name: 140, words: 100 };
const LETTER = 8; // pixels of a letter at the size of tables, and the room beside a text
const ROOM = 26;
const MEASURED = 500; // rows

export function wantedWidths(table: TableData): number[] {
  const kinds = kindsOf(table);
  return table.columns.map(({ name }, at) => {
    if (kinds[at] === "share") return MOST.share;
    const letters = table.cells.slice(0, MEASURED).reduce((longest, row) => Math.max(longest, row[at].length), name.length + 2);
    const most = kinds[at] === "words" && wraps(table) ? READ : MOST[kinds[at]];
    return Math.min(letters * LETTER + ROOM, most);
  });
}

// How wide each column is in a table of this width. Columns that are not first are shown where all have what they want; one that is
// not shown has no width. Texts share what is left. Where there is no room for the least, rows are stacked.
export function fitting(table: TableData, wanted: readonly number[], width: number): { widths: number[]; stacked: boolean } {
  const kinds = kindsOf(table),
    likes = [...wanted];
  for (let at = likes.length - 1; at >= 0 && sum(likes) > width; at--) {
    if (!table.columns[at].first) likes[at] = 0;
  }
  const least = likes.map((each, at) => Math.min(each, LEAST[kinds[at]]));
  const left = width - sum(least);
  const texts = likes.map((each, at) => (["name", "words"].includes(kinds[at]) ? each : 0));
  if (left < 0 || !sum(texts)) return { widths: least, stacked: left < 0 };
  return { widths: least.map((each, at) => each + (left * texts[at]) / sum(texts)), stacked: false };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

// All columns, whether there is room for them or not: values with their unit, else texts.
export function csv(table: TableData, rows: readonly number[]): string {
  const units = table.columns.map(({ unit }, at) =>
    table.values.some((row) => row[at] !== null) && unit in SHOWN && unit !== "count" ? unit : "",
  );
  const head = table.columns.map(({ name }, at) => quoted(units[at] ? `${name} (${units[at]})` : name));
  const line = (at: number) => table.cells[at].map((text, column) => quoted(table.values[at][column] ?? text));
  return `${[head, ...rows.map(line)].map((cells) => cells.join(",")).join("\r\n")}\r\n`;
}

// A spreadsheet would take a text that begins with `=` for a formula.
function quoted(value: Cell): string {
  if (value === null || value === "–") return "";
  if (typeof value !== "string") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Which of many rows of one height are near what a box shows of them.
export function windowOf(count: number, height: number, top: number, box: number, more = 20): { from: number; to: number } {
  const from = Math.max(0, Math.floor(top / height) - more);
  return { from: Math.min(from, count), to: Math.min(count, Math.ceil((top + box) / height) + more) };
}
