// Memory over time, where the trace has it: allocated and reserved, the peak, and who holds it.

import { scaleLinear } from "d3-scale";
import { button, make, makeIn, nameOf, replace } from "../../base/dom";
import { bytesText, timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { type Extremes, MemoryLine } from "../../core/memoryline";
import { home, whole } from "../../core/moving";
import { lead } from "../../core/places";
import { fittingTicks } from "../../core/ticks";
import { unpack } from "../../data/columns";
import type { MemoryPage } from "../../data/documents";
import type { Range } from "../../data/source";
import { choice, type Plot, plot, xAxis, yAxis } from "../page/plotting";
import { tablesNode } from "../page/tables";
import { gridLines, peakMark, type Y } from "./marks";

export function memoryTab(context: Context): HTMLElement | null {
  const devices = [...new Set(context.traces.flatMap(({ entry }) => entry.memory.map(({ device }) => device)))];
  if (!devices.length) return null;
  const controls = make("div", { class: "controls" }),
    room = make("div");
  const show = (device: string) => {
    const choices = devices.map((value) => ({ value, text: value }));
    replace(controls, choice("Memory of", choices, device, show));
    replace(
      room,
      context.traces.map((trace) => traceMemory(context, trace, device)),
    );
  };
  show(devices[0]);
  return make("section", { class: "plots" }, controls, room);
}

function traceMemory(context: Context, trace: Shown, device: string): HTMLElement {
  const page = trace.entry.memory.find((each) => each.device === device);
  const title = context.traces.length > 1 ? make("p", { class: "plot-title" }, nameOf(trace.entry.title)) : null;
  if (!page) return make("div", {}, title, make("p", { class: "faint" }, "The trace has no memory of this device."));
  const room = make("div");
  unpack(page.points).then((columns) => {
    const graph = new MemoryGraph(context, trace, page, new MemoryLine(columns));
    const peak = button("go to the peak", () => graph.goToPeak());
    replace(room, graph.node, make("div", { class: "controls" }, peak, graph.words));
  });
  const at = make("p", { class: "faint" }, `The peak is at ${timeText(page.peak_ns - trace.zero)} on the ruler.`);
  return make(
    "div",
    {},
    title,
    room,
    at,
    tablesNode([page.holders], (to) => lead(context, trace, to)),
  );
}

// The graph of one device: allocated as an area, reserved as a line, the peak, and the range that the timeline shows.

const LEFT = 64,
  RIGHT = 10,
  TOP = 18,
  BOTTOM = 22,
  HEIGHT = 220;
const STEPS = 60; // of the cursor from one end to the other

class MemoryGraph {
  readonly node: HTMLElement;
  readonly words = make("span", { class: "faint", "aria-live": "polite" });
  private readonly plot: Plot;
  private width = 0;
  private cursor: number; // in shared time
  private over: SVGElement | null = null; // what moves without drawing all again

  constructor(
    private readonly context: Context,
    private readonly trace: Shown,
    private readonly page: MemoryPage,
    private readonly line: MemoryLine,
  ) {
    this.cursor = page.peak_ns - trace.zero;
    this.plot = plot(`Memory of ${page.device} over time`, "memory", (svg, width) => this.paint(svg, width));
    this.node = this.plot.node;
    const { svg } = this.plot;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", "graph: the arrows read it, Enter goes there in the timeline, P to the peak");
    svg.addEventListener("pointermove", (event) => this.read(this.time(event.offsetX)));
    svg.addEventListener("click", (event) => this.go(this.time(event.offsetX)));
    svg.addEventListener("keydown", (event) => this.key(event));
    context.store.on(["view", "align"], () => this.mark());
    context.pictures.push({ title: `Memory of ${page.device}`, svg: () => (svg.isConnected ? svg : null) });
    this.read(this.cursor);
  }

  goToPeak(): void {
    this.go(this.page.peak_ns - this.trace.zero);
  }

  private get range(): Range {
    return whole(this.context.traces);
  }

  private x(time: number): number {
    const { from, to } = this.range;
    return LEFT + ((time - from) / (to - from)) * (this.width - LEFT - RIGHT);
  }

  private time(x: number): number {
    const { from, to } = this.range;
    const part = (x - LEFT) / (this.width - LEFT - RIGHT);
    return from + Math.min(Math.max(part, 0), 1) * (to - from);
  }

  private paint(svg: SVGSVGElement, width: number): void {
    this.width = width;
    const { line } = this,
      { from, to } = this.range,
      room = Math.max(width - LEFT - RIGHT, 1);
    const y = this.scale();
    const within = (values: Float64Array) => line.extremes(values, from + this.trace.zero, to + this.trace.zero, room);
    const allocated = within(line.allocated);
    const times = fittingTicks(from, to, width).filter(({ time }) => time >= from && time <= to),
      labels = new Map(times.map(({ time, label }) => [time, label]));
    const x = scaleLinear([from, to], [LEFT, width - RIGHT]);
    svg.setAttribute("height", String(HEIGHT));
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.over = makeIn(svg, "g");
    replace(
      svg,
      gridLines(svg, y.ticks(5).map(y), LEFT, width - RIGHT),
      makeIn(svg, "path", { class: "allocated some", d: area(allocated.most, y, y(0)) }),
      makeIn(svg, "path", { class: "allocated", d: area(allocated.least, y, y(0)) }),
      line.reserved ? makeIn(svg, "path", { class: "reserved", d: outline(within(line.reserved), y) }) : null,
      xAxis(svg, x, HEIGHT - BOTTOM, { values: times.map(({ time }) => time), text: (time) => labels.get(time) ?? "" }),
      yAxis(svg, y, LEFT, { values: y.ticks(5), text: (value) => bytesText(value) }),
      peakMark(svg, this.page.peak_bytes, this.x(this.page.peak_ns - this.trace.zero), y, width),
      this.legend(svg, y),
      this.over,
    );
    this.mark();
  }

  private scale() {
    const { allocated, reserved } = this.line;
    const top = allocated.reduce((most, value) => Math.max(most, value), reserved?.reduce((most, value) => Math.max(most, value), 0) ?? 0);
    const low = allocated.reduce((least, value) => Math.min(least, value), 0);
    return scaleLinear([low, top || 1], [HEIGHT - BOTTOM, TOP]);
  }

  // The names stand on what they name.
  private legend(svg: SVGElement, y: (value: number) => number): SVGElement[] {
    const { reserved } = this.line,
      label = (text: string, x: number, at: number) => makeIn(svg, "text", { class: "label", x, y: at }, text);
    const found = [label("allocated", LEFT + 6, y(0) - 8)];
    if (reserved) found.push(label("reserved", LEFT + 6, Math.max(y(reserved[0]) - 5, TOP - 6)));
    return found;
  }

  // The range that the timeline shows, and the cursor.
  private mark(): void {
    const { over } = this,
      { svg } = this.plot;
    if (!over) return;
    const { from, to } = this.context.store.state.view ?? home(this.context);
    const left = Math.max(this.x(from), LEFT),
      right = Math.min(this.x(to), this.width - RIGHT);
    const seen = { x: left, y: TOP, width: Math.max(right - left, 1), height: HEIGHT - TOP - BOTTOM };
    const at = this.x(this.cursor);
    replace(
      over,
      left < this.width && right > LEFT ? makeIn(svg, "rect", { class: "seen", ...seen }) : null,
      at >= LEFT ? makeIn(svg, "path", { class: "cursor", d: `M${at} ${TOP}V${HEIGHT - BOTTOM}` }) : null,
    );
  }

  private read(time: number): void {
    this.cursor = time;
    const { line } = this,
      at = line.place(time + this.trace.zero);
    const held = at < 0 ? "no memory event yet" : `allocated ${bytesText(line.allocated[at])}`;
    const reserved = at >= 0 && line.reserved ? `, reserved ${bytesText(line.reserved[at])}` : "";
    replace(this.words, `at ${timeText(time)}: ${held}${reserved}`);
    this.mark();
  }

  private go(time: number): void {
    const { from, to } = this.context.store.state.view ?? home(this.context);
    this.read(time);
    this.context.store.set({ view: { from: time - (to - from) / 2, to: time + (to - from) / 2 } });
  }

  private key(event: KeyboardEvent): void {
    const { from, to } = this.range,
      step = ((to - from) / STEPS) * (event.shiftKey ? 0.1 : 1);
    const where: Record<string, number> = {
      ArrowLeft: Math.max(this.cursor - step, from),
      ArrowRight: Math.min(this.cursor + step, to),
      Home: from,
      End: to,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in where) this.read(where[event.key]);
    else if (event.key === "Enter") this.go(this.cursor);
    else if (event.key.toLowerCase() === "p") this.goToPeak();
    else return;
    event.preventDefault();
    event.stopPropagation(); // the arrows are the timeline's elsewhere
  }
}

// Steps from pixel to pixel, down to the zero line.
function area(values: readonly (number | null)[], y: Y, zero: number): string {
  const parts = values.map((value, pixel) => (value === null ? "" : `M${LEFT + pixel} ${zero}V${y(value)}h1V${zero}Z`));
  return parts.join("");
}

function outline({ least, most }: Extremes, y: Y): string {
  let before = false;
  return most
    .map((value, pixel) => {
      const low = least[pixel];
      if (value === null || low === null) return "";
      const start = before ? `V${y(value)}` : `M${LEFT + pixel} ${y(value)}`;
      before = true;
      return low < value ? `${start}V${y(low)}h1` : `${start}h1`;
    })
    .join("");
}
