// A table that can be sorted by any column and filtered by a text. Columns say how a row's cell is compared and shown.

import { button, make, nameOf, replace } from "./dom.js";

const FIRST_ROWS = 200;

// columns: [{title, value(row), text(row), name?}]; `name` marks text out of the trace, which is also what a filter reads.
export class Table {
  constructor(columns, rows, { caption, onRow, sortBy = 0, down = true }) {
    Object.assign(this, { columns, rows, onRow, sortBy, down });
    this.wanted = "";
    this.most = FIRST_ROWS;
    this.body = make("tbody");
    this.heads = columns.map((column, at) => this.head(column, at));
    this.table = make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, this.heads)), this.body);
    this.more = make("p");
    this.node = make("div", { class: "scroll" }, this.table, this.more);
    this.draw();
  }

  head(column, at) {
    return make("th", { scope: "col", class: column.name ? "left" : null },
      button(column.title, () => this.sort(at, at === this.sortBy ? !this.down : !column.name)));
  }

  sort(at, down) {
    [this.sortBy, this.down] = [at, down];
    this.draw();
  }

  filter(text) {
    this.wanted = text.toLowerCase();
    this.draw();
  }

  // What is not known comes last, whichever way the rest is sorted.
  chosen() {
    const rows = this.rows.filter((row) => !this.wanted || this.words(row).includes(this.wanted));
    if (this.sortBy < 0) return rows; // as they came
    const { value } = this.columns[this.sortBy];
    const sign = this.down ? -1 : 1;
    return rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  words(row) {
    return this.columns.filter((column) => column.name).map((column) => column.text(row)).join("\n").toLowerCase();
  }

  draw() {
    const rows = this.chosen();
    this.heads.forEach((head, at) => {
      if (at === this.sortBy) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    replace(this.body, ...rows.slice(0, this.most).map((row) => this.row(row)));
    const hidden = rows.length - this.most;
    replace(this.more, hidden > 0 ? button(`show ${hidden} more`, () => { this.most = Infinity; this.draw(); }) : null);
  }

  row(row) {
    return make("tr", {}, this.columns.map((column, at) => {
      const text = column.text(row);
      if (!column.name) return make("td", {}, text);
      const shown = at === 0 && this.onRow ? button(nameOf(text), () => this.onRow(row), { class: "link" }) : nameOf(text);
      return make("td", { class: "left", title: column.title_of?.(row) }, shown);
    }));
  }
}
