// Ranks by steps as a heat map on a canvas. Ranks that do not fit are drawn together: a cell shows the largest of its ranks, and
// below it the least, since the rank that others wait for waits least.

import type { Colours } from "../../base/colours";
import { button, make, replace } from "../../base/dom";
import { percentText, timeText } from "../../base/units";
import type { Columns } from "../../data/columns";
import type { HeatData, HeatMeasure } from "../../data/documents";

const MARGIN = 44,
  LEGEND = 26,
  LABELS = 20;
const LEAST_WIDTH = 4,
  MOST_WIDTH = 120,
  MOST_HEIGHT = 420;
const TELLS = 1.02; // times closer than this to each other are drawn nearly the same
const FAR = 25; // a hundredth of the cells may be so many times further from the least than the others
const HEAT_HELP = "Arrows walk from cell to cell; Enter shows the ranks of a cell alone, Escape all of them.";

type Value = { value: number; rank: number; step: number };

type Cell = Value & { least: Value };
type Align = "left" | "right" | "center";

export class HeatMap {
  readonly node: HTMLElement;
  first = 0;
  last: number;
  at: [column: number, row: number] | null = null;
  per = 0;
  perStep = 1;
  columnCount = 0;
  rowCount = 0;
  cellWidth = 0;
  cellHeight = 0;
  width = 0;
  height = 0;
  median = 0;
  low = 0;
  high = 0;
  most = 0;
  private worst = -1;
  private power = 1;
  private values: Float64Array = new Float64Array();
  private waiting = 0;
  private measure: HeatMeasure;
  private readonly canvas: HTMLCanvasElement;
  private readonly pen: CanvasRenderingContext2D;
  private readonly status: HTMLElement;
  private readonly back: HTMLButtonElement;

  // A column has one value per rank and step, -1 where there is none.
  constructor(
    private readonly data: HeatData,
    private readonly columns: Columns,
    private readonly colours: Colours,
  ) {
    this.last = data.ranks.length;
    this.measure = data.measures[0];
    this.canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": `Ranks by steps. ${HEAT_HELP}` });
    this.pen = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    this.status = make("p", { class: "whole", role: "status", "aria-live": "polite" });
    this.back = button("all ranks", () => this.zoom(0, data.ranks.length), { hidden: "" });
    this.node = make(
      "div",
      { class: "heat" },
      this.controls(),
      make("div", { class: "frame" }, this.canvas),
      this.status,
      make("p", { class: "faint help" }, HEAT_HELP),
    );
    this.choose(this.measure);
    this.listen();
    if (this.canvas.parentElement) new ResizeObserver(() => this.redraw()).observe(this.canvas.parentElement);
  }

  private controls(): HTMLElement {
    const option = (measure: HeatMeasure, at: number) => {
      const input = make("input", { type: "radio", name: "measure", value: measure.name, checked: at === 0 ? "" : null });
      input.addEventListener("change", () => this.choose(measure));
      return make("label", {}, input, measure.title);
    };
    return make(
      "div",
      { class: "controls" },
      make("fieldset", { class: "switch" }, make("legend", {}, "show"), this.data.measures.map(option)),
      this.back,
    );
  }

  choose(measure: HeatMeasure): void {
    this.measure = measure;
    this.values = this.columns[measure.name];
    const known = this.values.filter((value) => value >= 0).sort();
    this.median = known[known.length >> 1] ?? 0;
    this.low = measure.name === "time" ? (known[0] ?? 0) : 0;
    const usual = known[Math.floor(known.length * 0.99)] ?? 0;
    this.most = known[known.length - 1] ?? 0;
    this.worst = this.values.indexOf(this.most);
    // A step that takes a second must not pale all others: the scale ends before it, and the root tells small differences apart.
    this.power = this.most - this.low > 3 * (usual - this.low) ? 0.5 : 1;
    this.high = Math.max(Math.min(this.most, this.low + FAR * (usual - this.low)), this.low * TELLS, this.low + 1);
    this.redraw();
    this.say();
  }

  zoom(first: number, last: number): void {
    [this.first, this.last, this.at] = [first, last, null];
    this.back.hidden = last - first === this.data.ranks.length;
    this.redraw();
    this.say();
  }

  // How many ranks and steps a cell holds: powers of two, as hosts hold ranks.
  private layOut(): void {
    this.width = Math.max(this.canvas.parentElement?.clientWidth ?? 0, 200);
    const room = this.width - MARGIN,
      ranks = this.last - this.first,
      { steps } = this.data;
    const per = powerOfTwo(ranks / Math.floor(room / LEAST_WIDTH)),
      other = per !== this.per;
    this.per = per;
    this.columnCount = Math.ceil(ranks / this.per);
    this.cellWidth = Math.min(room / this.columnCount, MOST_WIDTH);
    this.perStep = powerOfTwo(steps.length / Math.floor(MOST_HEIGHT / 10));
    this.rowCount = Math.ceil(steps.length / this.perStep);
    this.cellHeight = Math.max(10, Math.min(30, MOST_HEIGHT / this.rowCount));
    this.height = LEGEND + this.rowCount * this.cellHeight + LABELS;
    if (other) this.at = null;
    if (other) this.say();
  }

  cell(column: number, row: number): Cell | null {
    const { steps } = this.data;
    let found: Cell | null = null;
    const from = this.first + column * this.per,
      to = Math.min(from + this.per, this.last);
    for (let rank = from; rank < to; rank++) {
      for (let step = row * this.perStep; step < Math.min((row + 1) * this.perStep, steps.length); step++) {
        const value = this.values[rank * steps.length + step];
        if (value < 0) continue;
        const here = { value, rank, step };
        found ??= { ...here, least: here };
        const least: Value = value < found.least.value ? here : found.least;
        found = value > found.value ? { ...here, least } : { ...found, least };
      }
    }
    return found;
  }

  redraw(): void {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  private draw(): void {
    this.layOut();
    const ratio = window.devicePixelRatio || 1,
      { canvas, pen } = this;
    canvas.style.height = `${this.height}px`;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    pen.scale(ratio, ratio);
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    this.drawLegend();
    for (let row = 0; row < this.rowCount; row++) {
      this.text(this.stepName(row), MARGIN - 6, this.top(row) + this.cellHeight / 2, "right");
      for (let column = 0; column < this.columnCount; column++) this.drawCell(column, row);
    }
    this.drawRanks();
    if (this.at) this.outline(...this.at, this.colours.of("accent"), 3);
  }

  left(column: number): number {
    return MARGIN + column * this.cellWidth;
  }
  top(row: number): number {
    return LEGEND + row * this.cellHeight;
  }

  private drawCell(column: number, row: number): void {
    const { pen } = this,
      found = this.cell(column, row);
    const x = this.left(column),
      y = this.top(row),
      gap = this.cellWidth > 8 ? 1 : 0;
    pen.fillStyle = found ? this.colour(found.value) : this.colours.of("panel");
    pen.fillRect(x, y, this.cellWidth - gap, this.cellHeight - 1);
    if (found && found.least.value < found.value) {
      pen.fillStyle = this.colour(found.least.value);
      pen.fillRect(x, y + (this.cellHeight * 2) / 3, this.cellWidth - gap, this.cellHeight / 3 - 1);
    }
    const text = found ? timeText(found.value) : "–";
    if (this.cellWidth > 56)
      this.text(
        text,
        x + this.cellWidth / 2,
        y + this.cellHeight / 2,
        "center",
        found ? this.colours.ink(this.colour(found.value)) : this.colours.of("faint"),
      );
    const isWorst = found && found.rank * this.data.steps.length + found.step === this.worst;
    if (isWorst && this.most > this.median * TELLS) this.outline(column, row, this.colours.of("text"), 1.5);
  }

  private outline(column: number, row: number, colour: string, width: number): void {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(this.left(column) + 0.5, this.top(row) + 0.5, Math.max(this.cellWidth - 1, 2), this.cellHeight - 2);
    pen.lineWidth = 1;
  }

  private drawLegend(): void {
    const { pen } = this,
      size = Math.min(160, this.width / 4);
    const low = timeText(this.low),
      left = MARGIN + pen.measureText(low).width + 6;
    this.text(low, MARGIN, 9, "left");
    for (let x = 0; x < size; x++) {
      pen.fillStyle = this.colour(this.low + ((this.high - this.low) * x) / size);
      pen.fillRect(left + x, 4, 1, 10);
    }
    const more = this.most > this.high ? `, at most ${timeText(this.most)}` : "";
    this.text(`${timeText(this.high)}${more}`, left + size + 6, 9, "left");
    this.text("step", MARGIN - 6, LEGEND - 9, "right");
    this.text("rank", MARGIN - 6, this.height - LABELS / 2, "right");
  }

  private drawRanks(): void {
    const y = LEGEND + this.rowCount * this.cellHeight + LABELS / 2;
    const every = powerOfTwo(48 / this.cellWidth);
    for (let column = 0; column < this.columnCount; column += every) {
      const rank = this.data.ranks[this.first + column * this.per];
      const middle = this.cellWidth > 48;
      this.text(String(rank), this.left(column) + (middle ? this.cellWidth / 2 : 0), y, middle ? "center" : "left");
    }
  }

  private text(text: string, x: number, y: number, align: Align, colour = this.colours.of("faint")): void {
    this.pen.fillStyle = colour;
    this.pen.textAlign = align;
    this.pen.fillText(text, x, y);
  }

  private colour(value: number): string {
    return this.colours.heat(Math.min(Math.max((value - this.low) / (this.high - this.low), 0), 1) ** this.power);
  }

  private stepName(row: number): string {
    const step = this.data.steps[row * this.perStep];
    return step < 0 ? "all" : String(step);
  }

  private say(): HTMLElement {
    if (!this.at) {
      const many = this.per > 1 ? ` A cell holds ${this.per} ranks: the largest above, the least below.` : "";
      return replace(
        this.status,
        `${this.measure.text} Median ${timeText(this.median)}, largest ${timeText(this.most)}${this.placeOf(this.worst)}.${many}`,
      );
    }
    const [column, row] = this.at,
      found = this.cell(column, row),
      { ranks, steps, cut } = this.data;
    if (!found) return replace(this.status, "Nothing was recorded here.");
    const from = this.first + column * this.per,
      to = Math.min(from + this.per, this.last) - 1;
    const within =
      to > from
        ? `, the largest of ranks ${ranks[from]} to ${ranks[to]}; the least is ${timeText(found.least.value)} on rank ${ranks[found.least.rank]}`
        : "";
    const place = found.rank * steps.length + found.step,
      time = this.columns.time[place];
    const ratio =
      this.measure.name === "time"
        ? this.median
          ? `, ${(found.value / this.median).toFixed(2)}x the median`
          : ""
        : time > 0
          ? `, ${percentText(found.value / time)} of its step`
          : "";
    const partial = cut.includes(place) ? "; the recording cut this step" : "";
    return replace(this.status, `${this.measure.title} ${timeText(found.value)}${this.placeOf(place)}${ratio}${within}${partial}.`);
  }

  // ` on rank 17 (node-2) in step 3`
  private placeOf(place: number): string {
    const { ranks, hosts, steps } = this.data,
      rank = Math.floor(place / steps.length),
      step = steps[place % steps.length];
    return ` on rank ${ranks[rank]}${hosts[rank] ? ` (${hosts[rank]})` : ""}${step < 0 ? "" : ` in step ${step}`}`;
  }

  select(column: number, row: number): void {
    this.at = [Math.min(Math.max(column, 0), this.columnCount - 1), Math.min(Math.max(row, 0), this.rowCount - 1)];
    this.redraw();
    this.say();
  }

  private enter(): void {
    if (!this.at || this.per === 1) return;
    const from = this.first + this.at[0] * this.per;
    this.zoom(from, Math.min(from + this.per, this.last));
  }

  private listen(): void {
    const place = (event: MouseEvent) => [
      Math.floor((event.offsetX - MARGIN) / this.cellWidth),
      Math.floor((event.offsetY - LEGEND) / this.cellHeight),
    ];
    this.canvas.addEventListener("click", (event) => {
      const [column, row] = place(event);
      if (column >= 0 && column < this.columnCount && row >= 0 && row < this.rowCount) this.select(column, row);
    });
    this.canvas.addEventListener("dblclick", () => this.enter());
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [column, row] = this.at ?? [0, 0],
      by = this.at ? 1 : 0; // the first arrow selects the first cell
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.select(column - by, row),
      ArrowRight: () => this.select(column + by, row),
      ArrowUp: () => this.select(column, row - by),
      ArrowDown: () => this.select(column, row + by),
      Home: () => this.select(0, row),
      End: () => this.select(this.columnCount - 1, row),
      Enter: () => this.enter(),
      Escape: () => this.zoom(0, this.data.ranks.length),
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  }
}

// The least power of two that is not below `least`; at least 1.
function powerOfTwo(least: number): number {
  return least <= 1 ? 1 : 2 ** Math.ceil(Math.log2(least));
}
