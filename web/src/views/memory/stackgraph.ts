// Live bytes over a history as a stack: groups in colours, the largest allocations one by one. Each pixel shows the moment at
// which the most is live in it. Drag to widen a part; the arrows read, Enter chooses.

import { button, type Child, make, makeIn, nameOf, replace } from "../../base/dom";
import { bytesText, numberText, timeText } from "../../base/units";
import type { Axis, Band, Grouping, LiveStack, Part } from "../../core/livestack";
import type { DeviceDrawing } from "../../data/documents";
import type { Range } from "../../data/source";
import { BOTTOM, Graph, type Keys, LEFT, TOP } from "./graph";

const HEIGHT = 340;
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

export class StackGraph extends Graph {
  readonly node: HTMLElement;
  readonly tools: HTMLElement;
  private readonly words = make("p", { class: "plot-line faint", "aria-live": "polite" });
  private readonly legend = make("ul", { class: "keys amounts" });
  private axis: Axis = "event";
  private by = 0; // the grouping
  private part: Part;
  protected range: Range;
  private shown: Int32Array = new Int32Array(0); // the point of each pixel
  private cursor: number; // a point
  private band: Band | null = null; // under the pointer
  private box = -1; // the chosen allocation
  private from: number | null = null; // where a drag began
  private drag: number | null = null; // where it is, once it is no click

  constructor(
    private readonly drawing: DeviceDrawing,
    private readonly all: Part,
    private readonly choose: (band: Band) => void,
    private readonly looked: (from: number, to: number) => void, // the events that are in view
  ) {
    super("Live bytes over time", "Enter chooses, P goes to the peak, plus and minus zoom", HEIGHT, drawing.peak_bytes);
    this.part = all;
    const { stack } = all;
    this.range = this.whole();
    this.cursor = stack.place("event", drawing.peak_event);
    this.tools = make(
      "div",
      { class: "controls" },
      button("go to the peak", () => this.goTo(drawing.peak_event)),
      button("zoom in", () => this.zoom(1 / ZOOM)),
      button("zoom out", () => this.zoom(ZOOM)),
      button("show all", () => this.lookAtAll()),
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
      const { stack } = this.all,
        { from, to } = this.range,
        all = this.whole(),
        [first, last] = [from, to].map((end) => stack.points[axis][stack.place(this.axis, end)]);
      this.axis = axis;
      this.range = from <= all.from && to >= all.to ? this.whole() : { from: first, to: Math.max(last, first + 1) };
    }
    this.by = by;
    this.plot.draw();
    this.read(this.cursor, null);
  }

  mark(row: number): void {
    this.box = this.stack.boxes.row.indexOf(row);
    this.drawOver();
  }

  private whole(): Range {
    const values = this.all.stack.points[this.axis],
      from = values[0] ?? 0;
    return { from, to: Math.max(values[values.length - 1] ?? 1, from + 1) };
  }

  private listen(): void {
    const { svg } = this.plot;
    svg.addEventListener("pointermove", ({ offsetX, offsetY }) => {
      const point = this.pointAt(offsetX);
      if (this.from !== null && Math.abs(offsetX - this.from) > DRAG) this.drag = offsetX;
      this.read(point, this.bandAt(point, offsetY));
    });
    svg.addEventListener("pointerdown", (event) => {
      this.from = event.offsetX;
    });
    svg.addEventListener("pointerup", (event) => this.release(event));
    svg.addEventListener("pointerleave", () => {
      this.from = this.drag = null;
      this.drawOver();
    });
  }

  protected get most(): [number, number] {
    return [0, this.drawing.peak_bytes || 1];
  }

  protected get peak(): number {
    return this.axis === "event" ? this.drawing.peak_event : this.drawing.peak_ns;
  }

  protected override tickText(value: number, time: string): string {
    return this.axis === "time" ? time : numberText(value);
  }

  protected shapes(svg: SVGElement): Child[] {
    const { from, to } = this.range;
    this.shown = this.stack.pixels(this.axis, from, to, Math.floor(this.room));
    return [
      this.areas(svg),
      makeIn(svg, "path", { class: "edges", d: this.edges() }),
      makeIn(svg, "path", { class: "steps", d: this.steps() }),
    ];
  }

  // One shape for each group: its top edge, and back along that of the group below.
  private areas(svg: SVGElement): SVGElement[] {
    const { grouping, shown } = this;
    const below = new Float64Array(shown.length);
    return grouping.names.map((_, group) => {
      const low = below.slice();
      shown.forEach((point, pixel) => {
        below[pixel] += grouping.bytes(group, point);
      });
      const made = makeIn(svg, "path", { class: "live", d: this.area(low, below) });
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
    const { from, to } = this.range,
      { points } = this.stack;
    const at = (event: number) => (this.axis === "event" ? event : points.time[this.stack.place("event", event)]);
    const places = this.drawing.steps
      .map(at)
      .filter((value) => value >= from && value <= to)
      .map((value) => this.x(value));
    if (places.length > this.room / LEAST_STEP) return "";
    return places.map((x) => `M${x.toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`).join("");
  }

  // The chosen allocation, the band under the pointer, the cursor, and the part that a drag would widen.
  protected marks(svg: SVGElement): Child[] {
    const { from, drag } = this;
    return [
      this.box >= 0 ? makeIn(svg, "path", { class: "chosen", d: this.outline(this.box) }) : null,
      this.band ? makeIn(svg, "path", { class: "pointed", d: this.bandPath(this.band) }) : null,
      this.cursorMark(this.stack.points[this.axis][this.cursor]),
      from === null || drag === null ? null : this.stretchMark(Math.min(from, drag), Math.max(from, drag)),
    ];
  }

  private bandPath({ from, bytes }: Band): string {
    const y = this.y,
      x = this.x(this.stack.points[this.axis][this.cursor]);
    return `M${x - 5} ${y(from)}H${x + 5}V${y(from + bytes)}H${x - 5}Z`;
  }

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
    return this.area(low, high);
  }

  private pointAt(x: number): number {
    const pixel = Math.min(Math.max(Math.floor(x - LEFT), 0), this.shown.length - 1);
    return this.shown[pixel] ?? 0;
  }

  private bandAt(point: number, y: number): Band | null {
    const bytes = this.y.invert(y);
    return this.stack.bandsAt(this.grouping, point).find((band) => bytes >= band.from && bytes < band.from + band.bytes) ?? null;
  }

  private release(event: PointerEvent): void {
    const { from } = this,
      x = event.offsetX;
    this.from = this.drag = null;
    if (from !== null && Math.abs(x - from) > DRAG) {
      this.look(this.value(Math.min(from, x)), this.value(Math.max(from, x)));
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
      const amount = make("span", { class: "amount" }, bytesText(bytes));
      return make("li", { class: bytes ? null : "faint" }, key, nameOf(name, { title: name }), amount);
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

  private goTo(event: number): void {
    const { from, to } = this.range,
      { stack } = this,
      value = event === this.drawing.peak_event ? this.peak : stack.points[this.axis][stack.place("event", event)];
    if (value < from || value > to) this.look(value - (to - from) / 2, value + (to - from) / 2);
    this.read(this.stack.place("event", event), null);
  }

  private zoom(factor: number): void {
    const { from, to } = this.range,
      value = Math.min(Math.max(this.stack.points[this.axis][this.cursor], from), to);
    this.look(value - (value - from) * factor, value + (to - value) * factor);
  }

  private lookAtAll(): void {
    const { from, to } = this.whole();
    this.look(from, to);
  }

  private look(from: number, to: number): void {
    const all = this.whole(),
      wide = Math.min(Math.max(to - from, this.axis === "event" ? 4 : 4000), all.to - all.from);
    const start = Math.min(Math.max(from, all.from), all.to - wide);
    this.range = { from: start, to: start + wide };
    this.looked(this.eventAt(start), this.eventAt(start + wide));
    this.plot.draw();
    this.read(this.cursor, null);
  }

  private eventAt(value: number): number {
    const { stack } = this.all;
    return this.axis === "event" ? value : stack.points.event[stack.place("time", value)];
  }

  protected keys(fine: boolean): Keys {
    const { from, to } = this.range,
      { stack, axis } = this,
      { event } = stack.points,
      visible = stack.place(axis, to) - stack.place(axis, from),
      far = fine ? 1 : Math.max(Math.round(visible / 60), 1),
      last = stack.length - 1;
    return {
      ArrowLeft: () => this.goTo(event[Math.max(this.cursor - far, 0)]),
      ArrowRight: () => this.goTo(event[Math.min(this.cursor + far, last)]),
      Home: () => this.goTo(event[0]),
      End: () => this.goTo(event[last]),
      ArrowUp: () => this.climb(1),
      ArrowDown: () => this.climb(-1),
      Enter: () => this.band && this.choose(this.band),
      p: () => this.goTo(this.drawing.peak_event),
      "+": () => this.zoom(1 / ZOOM),
      "=": () => this.zoom(1 / ZOOM),
      "-": () => this.zoom(ZOOM),
      "0": () => this.lookAtAll(),
    };
  }

  private climb(step: number): void {
    const bands = this.stack.bandsAt(this.grouping, this.cursor),
      { band } = this;
    const at = band ? bands.findIndex(({ group, box }) => group === band.group && box === band.box) : step > 0 ? -1 : bands.length;
    this.read(this.cursor, bands[Math.min(Math.max(at + step, 0), bands.length - 1)] ?? null);
  }
}
