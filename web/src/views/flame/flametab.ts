// The flame graphs: GPU or host time, by module or by op, forward and backward. A click widens a box, and leaves the work of
// that box alone in the timeline.

import "./flame.css";
import { button, make, makeIn, nameOf, replace } from "../../base/dom";
import { percentText, timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { type Box, type Boxes, boxesOf, depthOf, isPath, laidOut, type Placed, pathOf } from "../../core/flame";
import { choice, type Plot, plot, rove } from "../page/plotting";

const TIMES: Record<string, string> = { gpu: "GPU time", host: "host time" };

export function flameTab(context: Context): HTMLElement | null {
  const has = (time: string) => context.traces.some(({ entry }) => entry.flame.trees.some((tree) => tree.time === time && tree.boxes.rows));
  const times = Object.keys(TIMES).filter(has);
  if (!times.length) return null;
  const shape: Shape = { time: times[0], by: "module", pass: "" };
  const controls = make("div", { class: "controls" }),
    rooms = context.traces.map((trace) => make("div", {}, context.traces.length > 1 ? title(trace) : null));
  const graphs = context.traces.map((trace, at) => new FlameGraph(context, trace, rooms[at]));
  const show = async () => {
    const boxes = await Promise.all(context.traces.map((trace) => boxesFor(trace, shape)));
    const passes = passesOf(boxes);
    if (!passes.includes(shape.pass)) shape.pass = "";
    replace(controls, switches(context, times, passes, shape, show));
    graphs.forEach((graph, at) => {
      graph.show(boxes[at], shape, context.store.state.filter);
    });
  };
  context.store.on(["filter"], ({ filter }) => {
    follow(context, shape, filter).then(show);
  });
  context.store.on(["search"], show);
  follow(context, shape, context.store.state.filter).then(show);
  return make("section", { class: "plots" }, controls, rooms, make("p", { class: "faint" }, words(context)));
}

function title({ entry }: Shown): HTMLElement {
  return make("p", { class: "plot-title" }, nameOf(entry.title));
}

function boxesFor({ entry: { flame } }: Shown, { time, by }: Pick<Shape, "time" | "by">): Promise<Boxes> {
  const tree = flame.trees.find((each) => each.time === time && each.by === by) ?? flame.trees[0];
  return boxesOf(flame, tree);
}

// Only the passes that occur; one alone is not worth a switch.
function passesOf(boxes: Boxes[]): string[] {
  const found = new Set(boxes.flatMap((each) => each.passesWithTime().map((pass) => each.passes[pass])));
  return found.size > 1 ? ["", ...(boxes[0]?.passes ?? []).filter((pass) => found.has(pass))] : [""];
}

function switches(context: Context, times: string[], passes: string[], shape: Shape, show: () => void): (HTMLElement | null)[] {
  const outer = context.traces.some(({ entry }) => entry.flame.has_modules) ? "module" : "range";
  const change = (key: keyof Shape) => (value: string) => {
    shape[key] = value;
    const { filter } = context.store.state;
    if (isPath(filter)) context.store.set({ filter: "" });
    show();
  };
  const bys = [
    { value: "module", text: `by ${outer}` },
    { value: "op", text: "by op" },
  ];
  const measures = times.map((value) => ({ value, text: TIMES[value] }));
  const ran = passes.map((value) => ({ value, text: value || "all" }));
  return [
    choice("Width", measures, shape.time, change("time")),
    choice("Boxes", bys, shape.by, change("by")),
    choice("Pass", ran, shape.pass, change("pass")),
    isPath(context.store.state.filter) ? button("show all work", () => context.store.set({ filter: "" })) : null,
  ];
}

// A path in the filter may be of another graph than the one that is shown: show that one.
async function follow({ traces }: Context, shape: Shape, filter: string): Promise<void> {
  if (!isPath(filter)) return;
  const holds = async (each: Pick<Shape, "time" | "by">) =>
    (await Promise.all(traces.map((trace) => boxesFor(trace, each)))).some((boxes) => boxes.find(filter));
  if (await holds(shape)) return;
  for (const { time, by } of traces[0]?.entry.flame.trees ?? []) {
    if (await holds({ time, by })) return void Object.assign(shape, { time, by, pass: "" });
  }
}

function words({ traces }: Context): string {
  const outer = traces.some(({ entry }) => entry.flame.has_modules)
    ? "nn.Modules"
    : "record_function ranges, as no nn.Modules were recorded";
  return (
    `By module: ${outer}, the backward pass where it is one, ops, kernels. By op: the ops around each launch. The width is time ` +
    "over the whole recording; kernels that run at once count in full. Host time includes profiler overhead. " +
    "Choose a box to widen it and to leave its work alone in the timeline; the first box goes back."
  );
}

// One flame graph: boxes of one trace, drawn at the width they have. The arrows go from box to box, Enter chooses.

const BOX = 20; // pixels high
const THINNEST = 2; // pixels: narrower parts stand together
const LETTER = 7; // pixels of a letter, about
const ENGINE = /^autograd::engine::evaluate_function: /; // before the name of the node: nothing else would fit into a box

interface Shape {
  time: string; // gpu, host
  by: string; // module, op
  pass: string; // empty: all
}

class FlameGraph {
  private readonly plot: Plot;
  private readonly line = make("p", { class: "plot-line faint" });
  private readonly roles: Map<string, string>;
  private boxes: Boxes | null = null;
  private focus: Box | null = null;
  private shape: Shape = { time: "gpu", by: "module", pass: "" };
  private placed: Placed[] = [];
  private shapes: SVGElement[] = [];

  constructor(
    private readonly context: Context,
    private readonly trace: Shown,
    room: HTMLElement,
  ) {
    this.roles = new Map(trace.facts.kernels.map(({ short, role }) => [short, role]));
    this.plot = plot("Flame graph", "flame", (svg, width) => this.paint(svg, width));
    room.append(this.plot.node, this.line);
    this.plot.svg.addEventListener("keydown", (event) => this.key(event));
    context.pictures.push({ title: `Flame graph of ${trace.entry.title}`, svg: () => this.plot.svg });
  }

  show(boxes: Boxes, shape: Shape, filter: string): void {
    this.boxes = boxes;
    this.shape = { ...shape };
    this.focus = boxes.find(filter);
    this.plot.svg.setAttribute("aria-label", `Flame graph of ${this.measure()} by ${shape.by}`);
    this.plot.draw();
  }

  private measure(): string {
    return this.shape.time === "gpu" ? "GPU time" : "host time";
  }

  private paint(svg: SVGSVGElement, width: number): void {
    if (!this.boxes) return;
    const { boxes, focus } = this,
      pass = boxes.passes.indexOf(this.shape.pass);
    const held = this.shapes.indexOf(document.activeElement as SVGElement) >= 0;
    this.placed = laidOut(boxes, focus ?? boxes.root, boxes.totals(pass), THINNEST / width);
    this.shapes = this.placed.map((each) => this.boxShape(svg, each, width));
    svg.setAttribute("height", String((Math.max(...this.placed.map(depthOf)) + 1) * BOX));
    replace(svg, this.shapes);
    const at = Math.max(
      this.placed.findIndex(({ box, small }) => box === focus && !small),
      0,
    );
    rove(this.shapes, at);
    this.read(this.placed[at]);
    if (held) this.shapes[at]?.focus();
  }

  // A box is an <svg> of its own, so that it cuts its text.
  private boxShape(svg: SVGElement, placed: Placed, width: number): SVGElement {
    const { box, from, share, small } = placed,
      name = this.name(placed),
      room = share * width;
    const rect = makeIn(svg, "rect", { width: "100%", height: BOX - 1 });
    const role = box.kind === "kernel" && !small ? this.roles.get(box.name) : undefined;
    if (role) (rect as SVGRectElement).style.fill = this.context.colours.group(role);
    const frame = { x: from * width, y: depthOf(placed) * BOX, width: room, height: BOX };
    const made = makeIn(
      svg,
      "svg",
      { class: this.classOf(placed), ...frame, role: "button", "aria-label": this.words(placed) },
      makeIn(svg, "title", {}, this.words(placed)),
      rect,
    );
    if (room > 4 * LETTER) made.append(makeIn(svg, "text", { x: 4, y: BOX - 6 }, name.replace(ENGINE, "")));
    made.addEventListener("click", () => this.choose(placed));
    made.addEventListener("pointerenter", () => this.read(placed));
    made.addEventListener("focus", () => this.read(placed));
    return made;
  }

  private classOf({ box, small }: Placed): string {
    const { search } = this.context.store.state;
    const found = search && !small && box.name.toLowerCase().includes(search.toLowerCase());
    const back = box.kind === "pass" ? " passed" : "";
    return `box ${small ? "small" : box.kind}${back}${found ? " found" : ""}`;
  }

  private name({ box, small }: Placed): string {
    if (small) return `${small} smaller`;
    return box.kind === "all" ? `all ${this.measure()}` : box.name;
  }

  private words(placed: Placed): string {
    const whole = this.placed[0]?.ns || placed.ns;
    const where = placed.small ? `${placed.small} smaller parts of ${placed.box.name}` : this.name(placed);
    return `${where}: ${timeText(placed.ns)}, ${percentText(placed.ns / whole)} of ${this.measure()}${this.byPass(placed)}`;
  }

  // What of it is forward, backward and so on, where it is more than one.
  private byPass({ box, small }: Placed): string {
    if (!this.boxes || small || this.shape.pass) return "";
    const { boxes } = this,
      sums = boxes.passes.map((pass, at) => ({ pass, ns: boxes.timeIn(box, at) })).filter(({ ns }) => ns > 0);
    return sums.length > 1 ? ` (${sums.map(({ pass, ns }) => `${pass} ${timeText(ns)}`).join(", ")})` : "";
  }

  private read(placed: Placed | undefined): void {
    const lost = this.trace.entry.flame.trees.find(({ time, by }) => time === this.shape.time && by === this.shape.by)?.left_out_ns;
    const left = lost ? ` ${timeText(lost)} in the smallest stacks are not in the page.` : "";
    replace(this.line, placed?.ns ? nameOf(`${this.words(placed)}.`) : `The recording has no ${this.measure()}.`, left);
  }

  // Calls of the runtime launch for the op around them: the filter is the op.
  private choose({ box }: Placed): void {
    let meant: Box = box;
    while (meant.kind === "call" && meant.above?.above) meant = meant.above;
    this.context.store.set({ filter: pathOf(meant) });
    this.context.say(box.above ? `The timeline shows the work of ${meant.name}.` : "The timeline shows all work.");
  }

  private key(event: KeyboardEvent): void {
    const at = this.shapes.indexOf(document.activeElement as SVGElement),
      placed = this.placed[at];
    if (!placed || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = this.next(placed, event.key);
    if (event.key === "Enter" || event.key === " ") this.choose(placed);
    else if (event.key === "Escape") this.context.store.set({ filter: "" });
    else if (next >= 0) {
      rove(this.shapes, next);
      this.shapes[next].focus();
    } else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation(); // the arrows are the timeline's elsewhere
  }

  private next(placed: Placed, key: string): number {
    const depth = depthOf(placed);
    const level = (wanted: number) => this.placed.filter((each) => depthOf(each) === wanted).sort((a, b) => a.from - b.from);
    const beside = level(depth),
      here = beside.indexOf(placed);
    const found =
      {
        ArrowLeft: beside[here - 1],
        ArrowRight: beside[here + 1],
        ArrowUp: level(depth - 1).findLast(({ from }) => from <= placed.from + 1e-9),
        ArrowDown: level(depth + 1).find(
          ({ from, share }) => from >= placed.from - 1e-9 && from + share <= placed.from + placed.share + 1e-9,
        ),
      }[key] ?? null;
    return found ? this.placed.indexOf(found) : -1;
  }
}
