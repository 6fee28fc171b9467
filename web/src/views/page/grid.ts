// Every table: sorted by a column, filtered, 15 rows until a person wants all, copied as CSV. Where columns have no room, those that
// are not first go, then each row is stacked. Of thousands of rows only those near the visible ones are in the page.

import "./grid.css";
import { button, listOf, make, nameOf, replace, sentence } from "../../base/dom";
import { numberText } from "../../base/units";
import { chosen, csv, fitting, type Kind, kindsOf, type Sorting, sortable, wantedWidths, windowOf, wraps } from "../../core/rows";
import type { TableData } from "../../data/documents";
import { shareBar, spanBar } from "./bars";
import { copyText } from "./copying";

const FIRST_ROWS = 15;
const MOST_AT_ONCE = 200; // beyond that the rows scroll in a box of their own

interface GridOptions {
  onRow?: ((at: number) => unknown) | undefined; // the names of rows become buttons
  words?: (at: number) => string; // what a filter reads; without it, what is shown
  filtered?: (text: string) => void; // a person changed the filter
  plain?: boolean; // nothing stands above it, as in a panel
  head?: HTMLElement | null; // the title, where nothing else stands between it and the table
}

// A table with its title, lines above it and a line below; `onRow` gets the place of a row.
export function tableNode(table: TableData, options: GridOptions = {}): HTMLElement {
  const title = table.title ? make("h3", {}, nameOf(table.title)) : null,
    lines = linesNode(table);
  if (lines || !table.cells.length) return make("section", {}, title, lines, ...tableParts(table, options));
  return make("section", {}, ...tableParts(table, { ...options, head: title }));
}

export function tableParts(table: TableData, options: GridOptions = {}): (HTMLElement | null)[] {
  return [
    table.cells.length ? new Grid(table, options).node : null,
    table.more ? make("p", { class: "faint" }, sentence(table.more)) : null,
    table.code ? make("pre", { class: "scroll", tabindex: 0, "aria-label": table.title || "Code" }, table.code) : null,
  ];
}

// A word in front and what it says; without a word a paragraph; items of a list.
export function linesNode({ lines = [] }: Pick<TableData, "lines">): HTMLElement | null {
  const items = lines.filter(([label]) => label === "-"),
    labelled = lines.filter(([label]) => label && label !== "-");
  const item = ([, text, below]: string[]) => make("li", {}, sentence(text), below ? [make("br"), sentence(below)] : null);
  if (!lines.length) return null;
  return make(
    "div",
    { class: "lines" },
    lines.filter(([label]) => !label).map(([, text]) => make("p", {}, sentence(text))),
    labelled.length
      ? listOf("dl", { class: "story" }, labelled, ([label, text]) => [make("dt", {}, label), make("dd", {}, sentence(text))])
      : null,
    items.length ? make("ul", {}, items.map(item)) : null,
  );
}

export class Grid {
  readonly node: HTMLElement;
  private readonly body = make("tbody", { role: "rowgroup" });
  private readonly room = make("div"); // as high as all rows
  private readonly box: HTMLElement;
  private readonly more = make("p", { class: "more" });
  private readonly heads: HTMLElement[];
  private readonly field: HTMLInputElement;
  private readonly order: HTMLSelectElement;
  private readonly kinds: Kind[];
  private readonly wanted: number[]; // width of each column
  private readonly sorts: boolean[];
  private readonly wraps: boolean;
  private sorting: Sorting = { by: -1, down: true };
  private rows: number[] = [];
  private drawn = new Map<number, HTMLElement>(); // by place in `rows`
  private all = false;
  private text = "";
  private test: ((at: number) => boolean) | null = null;
  private marked = -1;
  private shown: boolean[];

  constructor(
    readonly table: TableData,
    private readonly options: GridOptions = {},
  ) {
    const { columns, title } = table;
    this.kinds = kindsOf(table);
    this.wanted = wantedWidths(table);
    this.sorts = columns.map(({ name }, at) => name !== "" && !options.plain && sortable(table, at));
    this.wraps = wraps(table) && table.cells.length <= MOST_AT_ONCE;
    this.shown = columns.map(() => true);
    this.heads = columns.map(({ name }, at) =>
      make(
        "th",
        { scope: "col", role: "columnheader", class: this.kinds[at] },
        this.sorts[at] ? button(nameOf(name), () => this.sort(at)) : nameOf(name),
      ),
    );
    this.field = make("input", { type: "search", placeholder: "filter", "aria-label": `Filter: ${title}` });
    this.field.addEventListener("input", () => {
      this.filterBy(this.field.value);
      options.filtered?.(this.field.value);
    });
    this.order = make(
      "select",
      { "aria-label": "Sort by" },
      make("option", { value: -1 }, "as it came"),
      columns.flatMap(({ name }, at) => (this.sorts[at] ? [make("option", { value: at }, `by ${name}`)] : [])),
    );
    this.order.addEventListener("change", () => this.sort(Number(this.order.value)));
    const head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, this.heads));
    const node = make("table", { role: "table", "aria-label": title, "aria-rowcount": table.cells.length + 1 }, head, this.body);
    this.box = make("div", { class: "rows" }, replace(this.room, node));
    this.box.addEventListener("scroll", () => this.drawRows());
    this.body.addEventListener("keydown", (event) => this.walk(event));
    this.node = make("div", { class: this.wraps ? "grid wrap" : "grid" }, options.plain ? null : this.tools(), this.box, this.more);
    new ResizeObserver(() => this.fit()).observe(this.room);
    this.draw();
  }

  private tools(): HTMLElement {
    const said = make("span", { class: "faint", role: "status" });
    const copy = button("copy as CSV", async () => {
      const done = await copyText(csv(this.table, this.rows));
      replace(said, done ? `${numberText(this.rows.length)} rows copied` : "the browser does not let this page copy");
    });
    const few = this.table.cells.length <= FIRST_ROWS;
    const { head = null } = this.options;
    return make("div", { class: "tools" }, head, few ? null : this.field, this.sorts.includes(true) ? this.order : null, copy, said);
  }

  // By a column, numbers downwards first; again: the other way.
  private sort(by: number): void {
    const usual = by >= 0 && this.table.columns[by].unit !== "words";
    this.sorting = { by, down: by === this.sorting.by ? !this.sorting.down : usual };
    this.draw();
  }

  // The filter may also be set from elsewhere, as by a link; `test` then says what matches, where the text does not.
  filterBy(text: string, test: ((at: number) => boolean) | null = null): void {
    if (text === this.text && !test) return;
    this.text = text;
    this.test = test;
    if (this.field.value !== text) this.field.value = text;
    this.draw();
  }

  mark(at: number): void {
    this.marked = at;
    for (const [place, node] of this.drawn) this.showMark(node, this.rows[place]);
  }

  private showMark(node: HTMLElement, at: number): void {
    if (at === this.marked) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }

  private draw(): void {
    const { sorting } = this;
    const rows = chosen(this.table, this.test ? "" : this.text, sorting, this.options.words);
    this.rows = this.test ? rows.filter(this.test) : rows;
    this.order.value = String(sorting.by);
    this.heads.forEach((head, at) => {
      if (at === sorting.by) head.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.drawn = new Map();
    replace(this.body);
    this.box.classList.toggle("many", this.windowed);
    this.drawRows();
    const { length } = this.rows;
    const turn = button(this.all ? "show fewer" : `show all ${numberText(length)}`, () => {
      this.all = !this.all;
      this.draw();
    });
    replace(this.more, length > FIRST_ROWS ? turn : null, length ? null : "Nothing matches the filter.");
  }

  private get windowed(): boolean {
    return this.all && this.rows.length > MOST_AT_ONCE && !this.wraps;
  }

  private drawRows(): void {
    const { length } = this.rows;
    if (!this.windowed) {
      this.place(0, this.all ? length : Math.min(FIRST_ROWS, length));
      return;
    }
    if (!this.drawn.size) this.place(0, 1); // to measure
    const height = this.drawn.values().next().value?.getBoundingClientRect().height || 28;
    const { from, to } = windowOf(length, height, this.box.scrollTop, this.box.clientHeight);
    this.place(from, to, height);
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

  private row(at: number, place: number): HTMLElement {
    const cells = this.kinds.map((kind, column) => (this.shown[column] ? this.cell(at, column, kind) : null));
    const node = make("tr", { role: "row", "aria-rowindex": place + 2, "data-at": place }, cells);
    this.showMark(node, at);
    return node;
  }

  // A bar of a time with its interval stands below the name of its row.
  private cell(at: number, column: number, kind: Kind): HTMLElement {
    const { table, options } = this,
      text = table.cells[at][column],
      isName = kind === "name";
    const title = kind !== "number" && !this.wraps ? text : null;
    const cell = (...inside: (HTMLElement | string)[]) =>
      make("td", { role: "cell", class: kind, "data-title": table.columns[column].name, title }, inside);
    if (table.heat && table.values[at][column] !== null) return this.heat(at, column);
    if (kind === "share") return cell(shareBar(table.values[at][column] ?? 0), text);
    if (kind === "number") return cell(text);
    const shown = this.wraps && !isName ? sentence(text) : nameOf(text);
    const bar = isName ? table.bars?.[at] : null;
    return cell(
      isName && options.onRow ? button(shown, () => options.onRow?.(at), { class: "link" }) : shown,
      ...(bar ? [spanBar(bar, Math.max(table.base ?? 0, ...(table.bars ?? []).map(({ high }) => high)), table.base ?? 0)] : []),
    );
  }

  private heat(at: number, column: number): HTMLElement {
    const node = make("td", { role: "cell", class: "heat", "data-title": this.table.columns[column].name }, this.table.cells[at][column]);
    const share = Math.min(Math.max(this.table.values[at][column] ?? 0, 0), 1) * 100;
    node.style.background = `color-mix(in srgb, var(--gemm) ${share.toFixed(0)}%, var(--back))`;
    return node;
  }

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
    const { widths, stacked } = fitting(this.table, this.wanted, width);
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
