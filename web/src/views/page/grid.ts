// A table that fits its page: sorted by any column, filtered, 15 rows until a person wants all, copied as CSV. Where columns have
// no room, optional ones go, then each row is stacked. Of thousands of rows only those near the visible ones are in the page.

import "./grid.css";
import { button, make, nameOf, replace } from "../../base/dom";
import { numberText } from "../../base/units";
import { type Column, cellText, chosen, csv, fitting, type Sorting, wantedWidths, windowOf } from "../../core/rows";
import { type BarPart, bar, shareBar } from "./bars";

const FIRST_ROWS = 15;
const MOST_AT_ONCE = 200; // beyond that the rows scroll in a box of their own

// A share may be drawn in parts.
export interface GridColumn<Row> extends Column<Row> {
  parts?: (row: Row) => readonly BarPart[];
}

interface GridOptions<Row> {
  caption: string;
  sort?: string; // a column by title, downwards; without one rows stay as they came
  onRow?: (row: Row) => unknown; // the first column of names becomes buttons
  words?: (row: Row) => string; // what a filter reads; without it, what is shown
  filter?: { label: string; changed?: (text: string) => void };
  wrap?: boolean; // sentences are read in full
  bare?: boolean; // its caption stands above it already
  plain?: boolean; // nothing stands above it, as in a panel
  ordered?: boolean; // rows keep their order: numbers among their texts would sort as words
}

export class Grid<Row> {
  readonly node: HTMLElement;
  private readonly table: HTMLTableElement;
  private readonly body = make("tbody", { role: "rowgroup" });
  private readonly room = make("div"); // as high as all rows
  private readonly box: HTMLElement;
  private readonly more = make("p", { class: "more" });
  private readonly heads: HTMLElement[];
  private readonly field: HTMLInputElement;
  private readonly order: HTMLSelectElement;
  private sorting: Sorting;
  private rows: Row[] = [];
  private drawn = new Map<number, HTMLElement>(); // by place in `rows`
  private all = false;
  private text = "";
  private test: ((row: Row) => boolean) | null = null;
  private marked: Row | null = null;
  private shown: boolean[];
  private readonly wanted: number[]; // width of each column

  constructor(
    private readonly columns: GridColumn<Row>[],
    private readonly every: readonly Row[],
    private readonly options: GridOptions<Row>,
  ) {
    const by = columns.findIndex((column) => column.title === options.sort);
    this.sorting = { by, down: true };
    this.shown = columns.map(() => true);
    this.wanted = wantedWidths(columns, every);
    this.heads = columns.map((column, at) => this.head(column, at));
    this.field = make("input", {
      type: "search",
      placeholder: "filter",
      "aria-label": options.filter?.label ?? `Filter: ${options.caption}`,
    });
    this.field.addEventListener("input", () => {
      this.filterBy(this.field.value);
      options.filter?.changed?.(this.field.value);
    });
    this.order = make(
      "select",
      { "aria-label": "Sort by" },
      by < 0 ? make("option", { value: -1 }, "as it came") : null,
      columns.map(({ title }, at) => make("option", { value: at }, `by ${title}`)),
    );
    this.order.addEventListener("change", () => this.sort(Number(this.order.value)));
    const head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, this.heads));
    this.table = make("table", { role: "table", "aria-label": options.caption }, head, this.body);
    this.box = make("div", { class: "rows" }, this.room);
    this.room.append(this.table);
    this.box.addEventListener("scroll", () => this.drawRows());
    this.body.addEventListener("keydown", (event) => this.walk(event));
    this.node = make("div", { class: options.wrap ? "grid wrap" : "grid" }, options.plain ? null : this.tools(), this.box, this.more);
    new ResizeObserver(() => this.fit()).observe(this.room);
    this.draw();
  }

  private tools(): HTMLElement {
    const said = make("span", { class: "faint", role: "status" });
    const copy = button("copy as CSV", async () => {
      const done = await copyText(csv(this.columns, this.rows));
      replace(said, done ? `${numberText(this.rows.length)} rows copied` : "the browser does not let this page copy");
    });
    const few = this.every.length <= FIRST_ROWS;
    return make(
      "div",
      { class: "tools" },
      this.options.bare ? null : make("h4", {}, nameOf(this.options.caption)),
      few ? null : this.field,
      this.options.ordered ? null : this.order,
      copy,
      said,
    );
  }

  private head(column: Column<Row>, at: number): HTMLElement {
    return make(
      "th",
      { scope: "col", role: "columnheader", class: column.kind },
      this.options.ordered ? nameOf(column.title) : button(nameOf(column.title), () => this.sort(at)),
    );
  }

  // By a column, numbers downwards first; again: the other way.
  private sort(by: number): void {
    const usual = ["number", "share"].includes(this.columns[by]?.kind);
    this.sorting = { by, down: by === this.sorting.by ? !this.sorting.down : usual };
    this.draw();
  }

  // The filter may also be set from elsewhere, as by a link; `test` then says what matches, where the text does not.
  filterBy(text: string, test: ((row: Row) => boolean) | null = null): void {
    if (text === this.text && !test) return;
    this.text = text;
    this.test = test;
    if (this.field.value !== text) this.field.value = text;
    this.draw();
  }

  // The row of what is selected elsewhere.
  mark(row: Row | null): void {
    this.marked = row;
    for (const [at, node] of this.drawn) this.showMark(node, this.rows[at]);
  }

  private showMark(node: HTMLElement, row: Row): void {
    if (row === this.marked) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }

  private draw(): void {
    const { columns, options, sorting } = this;
    const shown = (row: Row) => columns.map((column) => cellText(column, row)).join("\n");
    const rows = this.test ? this.every.filter(this.test) : this.every;
    this.rows = chosen(rows, options.words ?? shown, this.test ? "" : this.text, columns, sorting);
    this.order.value = String(sorting.by);
    this.heads.forEach((head, at) => {
      if (at === sorting.by) head.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.drawn = new Map();
    replace(this.body);
    this.box.classList.toggle("many", this.windowed);
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.drawRows();
    this.drawMore();
  }

  private get windowed(): boolean {
    return this.all && this.rows.length > MOST_AT_ONCE && !this.options.wrap;
  }

  private drawMore(): void {
    const { length } = this.rows;
    const word = this.all ? "show fewer" : `show all ${numberText(length)}`;
    const turn = button(word, () => {
      this.all = !this.all;
      this.draw();
    });
    replace(this.more, length > FIRST_ROWS ? turn : null, length ? null : "Nothing matches the filter.");
  }

  private drawRows(): void {
    const { length } = this.rows;
    if (!this.windowed) {
      this.place(0, this.all ? length : Math.min(FIRST_ROWS, length));
      return;
    }
    if (!this.drawn.size) this.place(0, 1); // to measure
    const height = this.rowHeight();
    const { from, to } = windowOf(length, height, this.box.scrollTop, this.box.clientHeight);
    this.place(from, to, height);
  }

  private rowHeight(): number {
    const first = this.drawn.values().next().value;
    return first?.getBoundingClientRect().height || 28;
  }

  // Rows `from` to `to`, and room for the others. Rows that stay are not made again: one of them may have the focus.
  private place(from: number, to: number, height = 0): void {
    const next = new Map<number, HTMLElement>();
    for (let at = from; at < to; at++) next.set(at, this.drawn.get(at) ?? this.row(this.rows[at], at));
    for (const [at, node] of this.drawn) if (!next.has(at)) node.remove();
    let before: Element | null = null;
    for (const node of next.values()) {
      const there: Element | null = before ? before.nextElementSibling : this.body.firstElementChild;
      if (there !== node) this.body.insertBefore(node, there);
      before = node;
    }
    this.drawn = next;
    this.room.style.paddingTop = `${from * height}px`;
    this.room.style.paddingBottom = `${(this.rows.length - to) * height}px`;
  }

  private row(row: Row, at: number): HTMLElement {
    const named = this.columns.findIndex((column) => column.kind === "name");
    const cells = this.columns.map((column, number) => (this.shown[number] ? this.cell(column, row, number === named) : null));
    const node = make("tr", { role: "row", "aria-rowindex": at + 2, "data-at": at }, cells);
    this.showMark(node, row);
    return node;
  }

  private cell(column: GridColumn<Row>, row: Row, isName: boolean): HTMLElement {
    const text = cellText(column, row),
      { onRow } = this.options;
    const attributes = { role: "cell", class: column.kind, "data-title": column.title, title: column.hint?.(row) };
    if (column.parts) return make("td", attributes, bar(column.parts(row), { class: "predicted" }), text);
    if (column.kind === "share") return make("td", attributes, shareBar(Number(column.value(row) ?? 0)), text);
    const shown = column.kind === "number" ? text : nameOf(text);
    return make("td", attributes, isName && onRow ? button(shown, () => onRow(row), { class: "link" }) : shown);
  }

  // Up and down from row to row.
  private walk(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = (event.target as Element).closest("tr");
    if (!step || !row || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = this.drawn.get(Number(row.dataset.at) + step)?.querySelector("button");
    event.stopPropagation();
    event.preventDefault();
    next?.focus();
  }

  // As many columns as there is room for; in a tab that is not shown there is no width to go by.
  private fit(): void {
    const width = this.room.clientWidth;
    if (!width) return;
    const { widths, stacked } = fitting(this.columns, this.wanted, width);
    const shown = widths.map((each) => each > 0);
    this.heads.forEach((head, at) => {
      head.style.width = `${widths[at]}px`;
      head.hidden = !shown[at];
    });
    const same = stacked === this.node.classList.contains("stacked") && shown.join() === this.shown.join();
    this.node.classList.toggle("stacked", stacked);
    this.shown = shown;
    if (!same) this.draw();
    else if (this.windowed) this.drawRows();
  }
}

// Text to the clipboard, where the browser lets a page do that; true when it did.

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text); // a page from disk may have no clipboard of its own
  }
}

function copySelected(text: string): boolean {
  const before = document.activeElement as HTMLElement | null;
  const field = make("textarea", { "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus();
  return done;
}
