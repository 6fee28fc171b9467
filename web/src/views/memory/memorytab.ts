// Memory over time, where the trace has it: allocated and reserved, the peak, and who holds it.

import { button, type Child, make, makeIn, nameOf, replace } from "../../base/dom";
import { bytesText, timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { type Extremes, MemoryLine } from "../../core/memoryline";
import { home, whole } from "../../core/moving";
import { lead } from "../../core/places";
import { unpack } from "../../data/columns";
import type { MemoryPage } from "../../data/documents";
import type { Range } from "../../data/source";
import { choice } from "../page/plotting";
import { tablesNode } from "../page/tables";
import { Graph, type Keys, LEFT, RIGHT, TOP } from "./graph";

export function memoryTab(context: Context): HTMLElement | null {
  const devices = [...new Set(context.traces.flatMap(({ entry }) => entry.memory.map(({ device }) => device)))];
  if (!devices.length) return null;
  const controls = make("div", { class: "controls" }),
    room = make("div");
  const show = (device: string) => {
    const choices = devices.map((value) => ({ value, text: value })),
      nodes = context.traces.map((trace) => traceMemory(context, trace, device));
    replace(controls, choice("Memory of", choices, device, show));
    replace(room, nodes);
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
    const graph = new TraceGraph(context, trace, page, new MemoryLine(columns));
    replace(
      room,
      graph.node,
      make(
        "div",
        { class: "controls" },
        button("go to the peak", () => graph.go(graph.peak)),
        graph.words,
      ),
    );
  });
  const at = make("p", { class: "faint" }, `The peak is at ${timeText(page.peak_ns - trace.zero)} on the ruler.`),
    holders = tablesNode([page.holders], (to) => lead(context, trace, to));
  return make("div", {}, title, room, at, holders);
}

const HEIGHT = 220;
const STEPS = 60; // of the cursor from one end to the other

// Allocated as an area, reserved as a line, and the range that the timeline shows.
class TraceGraph extends Graph {
  readonly node: HTMLElement;
  readonly words = make("span", { class: "faint", "aria-live": "polite" });
  private cursor: number; // in shared time

  constructor(
    private readonly context: Context,
    private readonly trace: Shown,
    private readonly page: MemoryPage,
    private readonly line: MemoryLine,
  ) {
    super(`Memory of ${page.device} over time`, "Enter goes there in the timeline, P to the peak", HEIGHT, page.peak_bytes);
    this.cursor = this.peak;
    const { svg, node } = this.plot;
    this.node = node;
    svg.addEventListener("pointermove", (event) => this.read(this.value(event.offsetX)));
    svg.addEventListener("click", (event) => this.go(this.value(event.offsetX)));
    context.store.on(["view", "align"], () => this.drawOver());
    context.pictures.push({ title: `Memory of ${page.device}`, svg: () => (svg.isConnected ? svg : null) });
    this.read(this.cursor);
  }

  get peak(): number {
    return this.page.peak_ns - this.trace.zero;
  }

  protected get range(): Range {
    return whole(this.context.traces);
  }

  protected get most(): [number, number] {
    const { allocated, reserved } = this.line,
      high = (values: Float64Array | null) => values?.reduce((most, value) => Math.max(most, value), 0) ?? 0;
    const low = allocated.reduce((least, value) => Math.min(least, value), 0);
    return [low, Math.max(high(allocated), high(reserved)) || 1];
  }

  protected shapes(svg: SVGElement): Child[] {
    const { from, to } = this.range,
      { y, line, trace } = this;
    const within = (values: Float64Array) => line.extremes(values, from + trace.zero, to + trace.zero, this.room),
      { least, most } = within(line.allocated);
    const filled = (kind: string, values: Extremes["most"]) => {
      const edge = (side: (a: number, b: number) => number) => values.map((value) => side(value ?? 0, 0));
      return makeIn(svg, "path", { class: kind, d: this.area(edge(Math.min), edge(Math.max)) });
    };
    // names stand on what they name
    const label = (text: string, at: number) => makeIn(svg, "text", { class: "label", x: LEFT + 6, y: at }, text);
    return [
      filled("allocated some", most),
      filled("allocated", least),
      label("allocated", y(0) - 8),
      line.reserved && [
        makeIn(svg, "path", { class: "reserved", d: outline(within(line.reserved), y) }),
        label("reserved", Math.max(y(line.reserved[0]) - 5, TOP - 6)),
      ],
    ];
  }

  protected marks(): Child[] {
    const { from, to } = this.context.store.state.view ?? home(this.context);
    const left = Math.max(this.x(from), LEFT),
      right = Math.min(this.x(to), this.width - RIGHT);
    return [left < this.width && right > LEFT ? this.stretchMark(left, right) : null, this.cursorMark(this.cursor)];
  }

  private read(time: number): void {
    this.cursor = time;
    const { line } = this,
      at = line.place(time + this.trace.zero);
    const held = at < 0 ? "no memory event yet" : `allocated ${bytesText(line.allocated[at])}`;
    const reserved = at >= 0 && line.reserved ? `, reserved ${bytesText(line.reserved[at])}` : "";
    replace(this.words, `at ${timeText(time)}: ${held}${reserved}`);
    this.drawOver();
  }

  go(time: number): void {
    const { from, to } = this.context.store.state.view ?? home(this.context);
    this.read(time);
    this.context.store.set({ view: { from: time - (to - from) / 2, to: time + (to - from) / 2 } });
  }

  protected keys(fine: boolean): Keys {
    const { from, to } = this.range,
      step = ((to - from) / STEPS) * (fine ? 0.1 : 1);
    return {
      ArrowLeft: () => this.read(Math.max(this.cursor - step, from)),
      ArrowRight: () => this.read(Math.min(this.cursor + step, to)),
      Home: () => this.read(from),
      End: () => this.read(to),
      Enter: () => this.go(this.cursor),
      p: () => this.go(this.peak),
    };
  }
}

function outline({ least, most }: Extremes, y: (bytes: number) => number): string {
  let before = false;
  const parts = most.map((value, pixel) => {
    const low = least[pixel];
    if (value === null || low === null) return "";
    const start = before ? `V${y(value)}` : `M${LEFT + pixel} ${y(value)}`;
    before = true;
    return low < value ? `${start}V${y(low)}h1` : `${start}h1`;
  });
  return parts.join("");
}
