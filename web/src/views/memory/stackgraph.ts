// Live bytes over a history as a stack: groups in colours, the largest allocations one by one. Each pixel shows the moment at
// which the most is live in it. Drag to widen a part; the arrows read, Enter chooses.

import { scaleLinear } from "d3-scale";
import { button, make, makeIn, nameOf, replace } from "../../base/dom";
import { bytesText, numberText, timeText } from "../../base/units";
import type { Axis, Band, Grouping, LiveStack, Part } from "../../core/livestack";
import { fittingTicks } from "../../core/ticks";
import type { DeviceDrawing } from "../../data/documents";
import { type Plot, plot, xAxis, yAxis } from "../page/plotting";
import { gridLines, peakMark } from "./marks";

const LEFT = 64,
  RIGHT = 10,
  TOP = 18,
  BOTTOM = 22,
  HEIGHT = 340;
const LEAST_HEIGHT = 3; // pixels of an allocation that is outlined
const LEAST_STEP = 8; // pixels between two steps that are marked
const DRAG = 5; // pixels: less is a click
const ZOOM = 2;
const COLOURS = "gemm attention pointwise optimizer comms softmax normalization scatter-gather sort random reduction copy".split(" ");
// a category keeps its colour, whichever others there are
const CATEGORY: Record<string, string> = {
  parameters: "gemm",
  gradients: "attention",
  "optimizer state": "optimizer",
  activations: "pointwise",
  inputs: "random",
  temporaries: "softmax",
  workspaces: "sort",
  "CUDA graph pool": "scatter-gather",
  kept: "comms",
};

export function colourOf({ groups: { by, folded }, names }: Grouping, group: number): string {
  const own = by === "category" ? CATEGORY[names[group]] : folded && group === names.length - 1 ? undefined : COLOURS[group];
  return `var(--${own ?? "other"})`;
}

type Choose = (band: Band) => void;
type Look = (from: number, to: number) => void; // the events that are in view

export class StackGraph {
  readonly node: HTMLElement;
  readonly tools: HTMLElement;
  private readonly plot: Plot;
  private readonly words = make("p", { class: "plot-line faint", "aria-live": "polite" });
  private readonly legend = make("ul", { class: "keys amounts" });
  private axis: Axis = "event";
  private by = 0; // the grouping
  private part: Part;
  private range: [number, number];
  private width = 0;
  private shown: Int32Array = new Int32Array(0); // the point of each pixel
  private cursor: number; // a point
  private band: Band | null = null; // under the pointer
  private box = -1; // the chosen allocation
  private over: SVGElement | null = null; // what moves without drawing all again
  private from: number | null = null; // where a drag began

  constructor(
    private readonly drawing: DeviceDrawing,
    private readonly all: Part,
    private readonly choose: Choose,
    private readonly looked: Look,
  ) {
    this.part = all;
    const { stack } = all;
    this.range = this.whole();
    this.cursor = stack.place("event", drawing.peak_event);
    this.plot = plot("Live bytes over time", "memory", (svg, width) => this.paint(svg, width));
    this.tools = make(
      "div",
      { class: "controls" },
      button("go to the peak", () => this.goToPeak()),
      button("zoom in", () => this.zoom(1 / ZOOM)),
      button("zoom out", () => this.zoom(ZOOM)),
      button("show all", () => this.look(this.whole())),
    );
    this.node = make("div", {}, this.plot.node, this.legend, this.words);
    this.listen();
    this.read(this.cursor, null);
  }

  private get stack(): LiveStack {
    return this.part.stack;
  }

  private get grouping(): Grouping {
    return this.part.groupings[this.by];
  }

  // Another part of the history, or all of it; the moment and the allocation stay.
  use(part: Part): void {
    const { event } = this.stack.points,
      row = this.box >= 0 ? this.stack.boxes.row[this.box] : -1;
    const moment = event[this.cursor];
    this.part = part;
    this.cursor = part.stack.place("event", moment);
    this.box = part.stack.boxes.row.indexOf(row);
    this.plot.draw();
    this.read(this.cursor, null);
  }

  show(by: number, axis: Axis): void {
    if (axis !== this.axis) {
      const { stack } = this.all;
      const value = (end: number) => stack.points[axis][stack.place(this.axis, end)];
      const [from, to] = this.range;
      this.axis = axis;
      this.range = this.isWhole(from, to) ? this.whole() : [value(from), Math.max(value(to), value(from) + 1)];
    }
    this.by = by;
    this.plot.draw();
    this.read(this.cursor, null);
  }

  // Outlines an allocation.
  mark(row: number): void {
    this.box = this.stack.boxes.row.indexOf(row);
    this.drawOver();
  }

  private isWhole(from: number, to: number): boolean {
    const other = this.axis === "event" ? "time" : "event";
    return [this.axis, other].some((axis) => {
      const [low, high] = this.ends(axis as Axis);
      return from <= low && to >= high;
    });
  }

  private ends(axis: Axis): [number, number] {
    const values = this.all.stack.points[axis];
    return [values[0] ?? 0, Math.max(values[values.length - 1] ?? 1, (values[0] ?? 0) + 1)];
  }

  private whole(): [number, number] {
    return this.ends(this.axis);
  }

  private listen(): void {
    const { svg } = this.plot;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", "graph: the arrows read it, Enter chooses, P goes to the peak, plus and minus zoom");
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerdown", (event) => {
      this.from = event.offsetX;
    });
    svg.addEventListener("pointerup", (event) => this.release(event));
    svg.addEventListener("pointerleave", () => {
      this.from = null;
      this.drawOver();
    });
    svg.addEventListener("keydown", (event) => this.key(event));
  }

  private get room(): number {
    return Math.max(this.width - LEFT - RIGHT, 1);
  }

  private x(value: number): number {
    const [from, to] = this.range;
    return LEFT + ((value - from) / (to - from)) * this.room;
  }

  private value(x: number): number {
    const [from, to] = this.range;
    return from + Math.min(Math.max((x - LEFT) / this.room, 0), 1) * (to - from);
  }

  private get y() {
    return scaleLinear([0, this.drawing.peak_bytes || 1], [HEIGHT - BOTTOM, TOP]);
  }

  private paint(svg: SVGSVGElement, width: number): void {
    this.width = width;
    const [from, to] = this.range,
      y = this.y;
    this.shown = this.stack.pixels(this.axis, from, to, Math.floor(this.room));
    const peak = this.axis === "event" ? this.drawing.peak_event : this.drawing.peak_ns;
    svg.setAttribute("height", String(HEIGHT));
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.over = makeIn(svg, "g");
    replace(
      svg,
      gridLines(svg, y.ticks(5).map(y), LEFT, width - RIGHT),
      this.areas(svg),
      makeIn(svg, "path", { class: "edges", d: this.edges() }),
      makeIn(svg, "path", { class: "steps", d: this.steps() }),
      this.xAxis(svg),
      yAxis(svg, y, LEFT, { values: y.ticks(5), text: (value) => bytesText(value) }),
      peak >= from && peak <= to ? peakMark(svg, this.drawing.peak_bytes, this.x(peak), y, width) : null,
      this.over,
    );
    this.drawOver();
  }

  private xAxis(svg: SVGElement): SVGElement {
    const [from, to] = this.range,
      scale = scaleLinear([from, to], [LEFT, this.width - RIGHT]);
    const times = fittingTicks(from, to, this.width).filter(({ time }) => time >= from && time <= to),
      labels = new Map(times.map(({ time, label }) => [time, label]));
    const text = (value: number) => (this.axis === "time" ? (labels.get(value) ?? "") : numberText(value));
    return xAxis(svg, scale, HEIGHT - BOTTOM, { values: times.map(({ time }) => time), text });
  }

  // One shape for each group: its top edge, and back along that of the group below.
  private areas(svg: SVGElement): SVGElement[] {
    const y = this.y,
      { grouping, shown } = this;
    const below = new Float64Array(shown.length);
    return grouping.names.map((_, group) => {
      const low = below.slice();
      shown.forEach((point, pixel) => {
        below[pixel] += grouping.bytes(group, point);
      });
      const made = makeIn(svg, "path", { class: "live", d: area(low, below, y) });
      made.style.fill = colourOf(grouping, group);
      return made;
    });
  }

  // The outlines of allocations that are high enough; one that stays where it is has one line.
  private edges(): string {
    const y = this.y,
      least = (LEAST_HEIGHT / (HEIGHT - TOP - BOTTOM)) * this.drawing.peak_bytes;
    const parts: string[] = [];
    let before = new Map<number, [number, number]>(); // by height: where a line began
    const flush = (height: number, [start, end]: [number, number]) => parts.push(`M${LEFT + start} ${height.toFixed(1)}H${LEFT + end}`);
    let known: number[] = [];
    this.shown.forEach((point, pixel) => {
      if (!pixel || point !== this.shown[pixel - 1]) {
        const high = this.stack.bandsAt(this.grouping, point).filter(({ bytes }) => bytes >= least);
        known = [...new Set(high.flatMap(({ from, bytes }) => [y(from), y(from + bytes)]))];
      }
      const next = new Map<number, [number, number]>();
      for (const height of known) next.set(height, [before.get(height)?.[0] ?? pixel, pixel + 1]);
      for (const [height, run] of before) if (!next.has(height)) flush(height, run);
      before = next;
    });
    for (const [height, run] of before) flush(height, run);
    return parts.join("");
  }

  private steps(): string {
    const [from, to] = this.range,
      { points } = this.stack;
    const at = (event: number) => (this.axis === "event" ? event : points.time[this.stack.place("event", event)]);
    const places = this.drawing.steps
      .map(at)
      .filter((value) => value >= from && value <= to)
      .map((value) => this.x(value));
    if (places.length > this.room / LEAST_STEP) return "";
    return places.map((x) => `M${x.toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`).join("");
  }

  // The cursor, the band under the pointer, the chosen allocation, and the part that a drag would widen.
  private drawOver(drag: number | null = null): void {
    const { over } = this,
      { svg } = this.plot;
    if (!over) return;
    const at = this.x(this.stack.points[this.axis][this.cursor]);
    const [left, right] = [this.from ?? 0, drag ?? 0].sort((a, b) => a - b);
    replace(
      over,
      this.box >= 0 ? makeIn(svg, "path", { class: "chosen", d: this.outline(this.box) }) : null,
      this.band ? makeIn(svg, "path", { class: "pointed", d: this.bandPath(this.band) }) : null,
      at >= LEFT && at <= this.width - RIGHT ? makeIn(svg, "path", { class: "cursor", d: `M${at} ${TOP}V${HEIGHT - BOTTOM}` }) : null,
      drag === null
        ? null
        : makeIn(svg, "rect", { class: "seen", x: left, y: TOP, width: Math.max(right - left, 1), height: HEIGHT - TOP - BOTTOM }),
    );
  }

  private bandPath({ from, bytes }: Band): string {
    const y = this.y,
      x = this.x(this.stack.points[this.axis][this.cursor]);
    return `M${x - 5} ${y(from)}H${x + 5}V${y(from + bytes)}H${x - 5}Z`;
  }

  // Where an allocation lies, pixel by pixel.
  private outline(box: number): string {
    const low = new Float64Array(this.shown.length),
      high = new Float64Array(this.shown.length);
    const { start, end } = this.stack.boxes,
      { event } = this.stack.points;
    this.shown.forEach((point, pixel) => {
      if (start[box] > event[point] || event[point] >= end[box]) return;
      const band = this.stack.bandsAt(this.grouping, point).find((each) => each.box === box);
      low[pixel] = band?.from ?? 0;
      high[pixel] = low[pixel] + (band?.bytes ?? 0);
    });
    return area(low, high, this.y);
  }

  private pointAt(x: number): number {
    const pixel = Math.min(Math.max(Math.floor(x - LEFT), 0), this.shown.length - 1);
    return this.shown[pixel] ?? 0;
  }

  private bandAt(point: number, y: number): Band | null {
    const bytes = this.y.invert(y);
    return this.stack.bandsAt(this.grouping, point).find((band) => bytes >= band.from && bytes < band.from + band.bytes) ?? null;
  }

  private move(event: PointerEvent): void {
    const point = this.pointAt(event.offsetX);
    this.read(point, this.bandAt(point, event.offsetY));
    if (this.from !== null && Math.abs(event.offsetX - this.from) > DRAG) this.drawOver(event.offsetX);
  }

  private release(event: PointerEvent): void {
    const { from } = this;
    this.from = null;
    if (from !== null && Math.abs(event.offsetX - from) > DRAG) {
      const [left, right] = [from, event.offsetX].sort((a, b) => a - b);
      this.look([this.value(left), this.value(right)]);
      return;
    }
    const point = this.pointAt(event.offsetX),
      band = this.bandAt(point, event.offsetY);
    this.read(point, band);
    if (band) this.choose(band);
  }

  // The values at a point: in the legend by group, in words the moment and what the pointer is on.
  private read(point: number, band: Band | null): void {
    this.cursor = point;
    this.band = band;
    const { grouping, stack } = this,
      { event, time, live, reserved } = stack.points;
    const keys = grouping.names.map((name, group) => {
      const key = make("span", { class: "key" }),
        bytes = grouping.bytes(group, point);
      key.style.background = colourOf(grouping, group);
      return make(
        "li",
        { class: bytes ? null : "faint" },
        key,
        nameOf(name, { title: name }),
        make("span", { class: "amount" }, bytesText(bytes)),
      );
    });
    replace(this.legend, keys.reverse());
    const moment = `After event ${numberText(event[point])}, at ${timeText(time[point])}: live ${bytesText(live[point])}`;
    const on = band ? [" On ", nameOf(this.bandWords(band)), `, ${bytesText(band.bytes)}.`] : null;
    replace(this.words, `${moment}, reserved ${bytesText(reserved[point])}${this.stepWords(event[point])}.`, on);
    this.drawOver();
  }

  private stepWords(event: number): string {
    const { steps, counted } = this.drawing,
      number = steps.filter((start) => start <= event).length + 1;
    if (!steps.length) return "";
    return counted && number > counted ? ", after the last step" : `, in step ${number}`;
  }

  private bandWords({ box, group, count }: Band): string {
    const { boxes } = this.stack,
      { categories } = this.drawing,
      { lines } = this.part.drawn;
    if (box >= 0) return `${lines[boxes.named[box]]} (${categories[boxes.is[box]]})`;
    return `${numberText(count)} smaller of ${this.grouping.names[group]}`;
  }

  private go(point: number): void {
    const [from, to] = this.range,
      { points } = this.stack,
      value = points[this.axis][point],
      event = points.event[point];
    if (value < from || value > to) this.look([value - (to - from) / 2, value + (to - from) / 2]);
    this.read(this.stack.place("event", event), null);
  }

  private goToPeak(): void {
    const [from, to] = this.range,
      { peak_event, peak_ns } = this.drawing,
      value = this.axis === "event" ? peak_event : peak_ns;
    if (value < from || value > to) this.look([value - (to - from) / 2, value + (to - from) / 2]);
    this.read(this.stack.place("event", peak_event), null);
  }

  private zoom(factor: number): void {
    const [from, to] = this.range,
      value = Math.min(Math.max(this.stack.points[this.axis][this.cursor], from), to);
    this.look([value - (value - from) * factor, value + (to - value) * factor]);
  }

  private look([from, to]: [number, number]): void {
    const [low, high] = this.whole(),
      wide = Math.min(Math.max(to - from, this.axis === "event" ? 4 : 4000), high - low);
    const start = Math.min(Math.max(from, low), high - wide);
    this.range = [start, start + wide];
    this.looked(this.eventAt(start), this.eventAt(start + wide));
    this.plot.draw();
    this.read(this.cursor, null);
  }

  private eventAt(value: number): number {
    const { stack } = this.all;
    return this.axis === "event" ? value : stack.points.event[stack.place("time", value)];
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 1 : Math.max(Math.round(this.visible() / 60), 1),
      last = this.stack.length - 1;
    const moves: Record<string, () => void> = {
      ArrowLeft: () => this.go(Math.max(this.cursor - far, 0)),
      ArrowRight: () => this.go(Math.min(this.cursor + far, last)),
      Home: () => this.go(0),
      End: () => this.go(last),
      ArrowUp: () => this.climb(1),
      ArrowDown: () => this.climb(-1),
      Enter: () => this.band && this.choose(this.band),
      p: () => this.goToPeak(),
      "+": () => this.zoom(1 / ZOOM),
      "=": () => this.zoom(1 / ZOOM),
      "-": () => this.zoom(ZOOM),
      "0": () => this.look(this.whole()),
    };
    const move = moves[event.key] ?? moves[event.key.toLowerCase()];
    if (!move) return;
    move();
    event.preventDefault();
  }

  private visible(): number {
    const [from, to] = this.range;
    return this.stack.place(this.axis, to) - this.stack.place(this.axis, from);
  }

  // From band to band of the moment.
  private climb(step: number): void {
    const bands = this.stack.bandsAt(this.grouping, this.cursor),
      { band } = this;
    const at = band ? bands.findIndex(({ group, box }) => group === band.group && box === band.box) : step > 0 ? -1 : bands.length;
    this.read(this.cursor, bands[Math.min(Math.max(at + step, 0), bands.length - 1)] ?? null);
  }
}

// Between two edges, in steps from pixel to pixel; pieces without height are left out.
function area(low: Float64Array, high: Float64Array, y: (value: number) => number): string {
  const parts: string[] = [];
  for (let pixel = 0; pixel < low.length; ) {
    let end = pixel + 1;
    while (end < low.length && low[end] === low[pixel] && high[end] === high[pixel]) end += 1;
    if (high[pixel] > low[pixel]) {
      const top = y(high[pixel]);
      parts.push(`M${LEFT + pixel} ${top.toFixed(2)}h${end - pixel}v${(y(low[pixel]) - top).toFixed(2)}h${pixel - end}z`);
    }
    pixel = end;
  }
  return parts.join("");
}
