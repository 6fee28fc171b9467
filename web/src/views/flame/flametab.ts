// The flame graphs: GPU or host time, by module or by op, forward and backward. A click widens a box, and leaves the work of
// that box alone in the timeline.

import { button, make, nameOf, replace } from "../../base/dom";
import { timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { type Box, type Boxes, bottomUp, boxesOf, foldedLayers, isPath, pathOf } from "../../core/flame";
import { gpuGroups, swatch } from "../page/legend";
import { choice } from "../page/plotting";
import { FlameGraph } from "./flamegraph";

const WAYS = [
  { value: "down", text: "top down" },
  { value: "up", text: "bottom up" },
];
const LAYERS = [
  { value: "folded", text: "equal layers as one" },
  { value: "each", text: "each layer" },
];
const TIMES: Record<string, string> = { gpu: "GPU time", host: "host time" };

export function flameTab(context: Context): HTMLElement | null {
  const has = (time: string) => context.traces.some(({ entry }) => entry.flame.trees.some((tree) => tree.time === time && tree.boxes.rows));
  const times = Object.keys(TIMES).filter(has);
  if (!times.length) return null;
  const shape: Shape = { time: times[0], by: "module", pass: "", layers: "folded", way: "down" };
  const controls = make("div", { class: "controls" }),
    rooms = context.traces.map((trace) => make("div", {}, context.traces.length > 1 ? title(trace) : null));
  const graphs = context.traces.map((trace, at) => new TraceFlame(context, trace, rooms[at]));
  const show = async () => {
    const perStep = context.store.state.basis === "step";
    const boxes = await Promise.all(context.traces.map((trace) => boxesFor(trace, shape, perStep)));
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
  context.store.on(["search", "basis"], show);
  follow(context, shape, context.store.state.filter).then(show);
  const key = make("ul", { class: "legend", "aria-label": "Colours of the flame graph" });
  const explain = () => replace(key, colourKey(context));
  context.store.on(["basis"], explain);
  explain();
  return make("section", { class: "plots" }, controls, rooms, key, make("p", { class: "faint" }, words(context)));
}

// What the colours of the boxes mean: kernels have those of the timeline.
const KINDS: [string, string][] = [
  ["cpu-op", "module"],
  ["random", "range"],
  ["other-call", "pass"],
  ["python-function", "op"],
  ["launch-call", "call"],
];

function colourKey(context: Context): HTMLElement[] {
  const there = new Set(context.traces.flatMap(({ entry }) => (entry.flame.has_modules ? ["module"] : ["range"])));
  const kinds = KINDS.filter(([, kind]) => (kind === "module" || kind === "range" ? there.has(kind) : true));
  const item = (colour: string, text: string) => make("li", {}, swatch(context.colours.group(colour)), text);
  return [
    ...kinds.map(([colour, text]) => item(colour, text)),
    ...gpuGroups(context).map((group) => item(group, group.replaceAll("_", " "))),
  ];
}

function title({ entry }: Shown): HTMLElement {
  return make("p", { class: "plot-title" }, nameOf(entry.title));
}

type Chosen = Pick<Shape, "time" | "by" | "layers" | "way">;
const made = new WeakMap<Boxes, Map<string, Boxes>>(); // by layers and way

async function boxesFor({ entry: { flame } }: Shown, { time, by, layers, way }: Chosen, perStep = false): Promise<Boxes> {
  const tree = flame.trees.find((each) => each.time === time && each.by === by) ?? flame.trees[0];
  const boxes = await boxesOf(flame, tree, perStep),
    known = made.get(boxes) ?? new Map<string, Boxes>();
  made.set(boxes, known);
  const wanted = known.get(`${layers} ${way}`) ?? shaped(boxes, layers, way);
  known.set(`${layers} ${way}`, wanted);
  return wanted;
}

function shaped(boxes: Boxes, layers: string, way: string): Boxes {
  const folded = layers === "folded" ? foldedLayers(boxes) : boxes;
  return way === "up" ? bottomUp(folded) : folded;
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
    choice("From", WAYS, shape.way, change("way")),
    choice("Layers", LAYERS, shape.layers, change("layers")),
    isPath(context.store.state.filter) ? button("show all work", () => context.store.set({ filter: "" })) : null,
  ];
}

// A path in the filter may be of another graph than the one that is shown: show that one.
async function follow({ traces }: Context, shape: Shape, filter: string): Promise<void> {
  if (!isPath(filter)) return;
  const holds = async (each: Chosen) =>
    (await Promise.all(traces.map((trace) => boxesFor(trace, each)))).some((boxes) => boxes.find(filter));
  if (await holds(shape)) return;
  for (const { time, by } of traces[0]?.entry.flame.trees ?? []) {
    for (const layers of ["folded", "each"]) {
      const wanted = { time, by, layers, way: "down" };
      if (await holds(wanted)) return void Object.assign(shape, wanted, { pass: "" });
    }
  }
}

function words({ traces }: Context): string {
  const outer = traces.some(({ entry }) => entry.flame.has_modules)
    ? "nn.Modules"
    : "record_function ranges, as no nn.Modules were recorded";
  return (
    `By module: ${outer}, the backward pass where it is one, ops, kernels. By op: the ops around each launch. The width is time ` +
    "per step (the mean) or over the recording, as the switch above says; kernels that run at once count in full. Host time includes profiler overhead. " +
    "Choose a box to widen it and to leave its work alone in the timeline; the first box goes back. " +
    "From the bottom up the innermost comes first, and below it what launched it."
  );
}

// The flame graph of one trace: a box that is chosen is the filter of the page.

interface Shape {
  time: string; // gpu, host
  by: string; // module, op
  pass: string; // empty: all
  layers: string; // folded, each
  way: string; // down, up
}

class TraceFlame {
  private readonly graph: FlameGraph;
  private shape: Shape = { time: "gpu", by: "module", pass: "", layers: "folded", way: "down" };
  private boxes: Boxes | null = null;
  private widened: Box | null = null; // from below; from above the filter of the page says it

  constructor(
    private readonly context: Context,
    private readonly trace: Shown,
    room: HTMLElement,
  ) {
    const roles = new Map(trace.facts.kernels.map(({ short, role }) => [short, role])),
      { colours, store } = context;
    const isFound = ({ name }: Box) => store.state.search !== "" && name.toLowerCase().includes(store.state.search.toLowerCase());
    this.graph = new FlameGraph(room, {
      measure: () => `${TIMES[this.shape.time]}${this.per()}`,
      text: timeText,
      left: () => this.left(),
      choose: (box) => this.choose(box),
      back: () => store.set({ filter: "" }),
      colour: ({ kind, name }) => (kind === "kernel" && roles.has(name) ? colours.group(roles.get(name) ?? "") : undefined),
      isFound,
    });
    context.pictures.push({ title: `Flame graph of ${trace.entry.title}`, svg: () => this.graph.plot.svg });
  }

  show(boxes: Boxes, shape: Shape, filter: string): void {
    this.shape = { ...shape };
    if (this.boxes !== boxes) this.widened = null;
    this.boxes = boxes;
    const focus = shape.way === "up" ? this.widened : boxes.find(filter);
    this.graph.show(boxes, focus, shape.pass, `Flame graph of ${TIMES[shape.time]} by ${shape.by}`);
  }

  private per(): string {
    const { store } = this.context;
    return store.state.basis === "step" && this.trace.entry.flame.steps ? " per step" : " in the recording";
  }

  private left(): string {
    const lost = this.trace.entry.flame.trees.find(({ time, by }) => time === this.shape.time && by === this.shape.by)?.left_out_ns;
    return lost ? ` ${timeText(lost)} in the smallest stacks are not in the page.` : "";
  }

  // Calls of the runtime launch for the op around them: the filter is the op.
  private choose(box: Box): void {
    if (this.shape.way === "up" && this.boxes) {
      this.widened = box.above ? box : null;
      this.show(this.boxes, this.shape, "");
      return;
    }
    let meant: Box = box;
    while (meant.kind === "call" && meant.above?.above) meant = meant.above;
    this.context.store.set({ filter: pathOf(meant) });
    this.context.say(box.above ? `The timeline shows the work of ${meant.name}.` : "The timeline shows all work.");
  }
}
