// The flame graphs: GPU or host time, by module or by op, forward and backward. A click widens a box, and leaves the work of
// that box alone in the timeline.

import { button, make, nameOf, replace } from "../../base/dom";
import { timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import {
  around,
  type Box,
  type Boxes,
  bottomUp,
  boxesOf,
  endOf,
  type FunctionRow,
  foldedLayers,
  functionIn,
  functionsOf,
  isPath,
  labelOf,
  pathOf,
} from "../../core/flame";
import { tableOf } from "../../core/rows";
import { Grid } from "../page/grid";
import { gpuGroups, swatch } from "../page/legend";
import { choice } from "../page/plotting";
import { FlameGraph } from "./flamegraph";

const WAYS = [
  { value: "down", text: "top down" },
  { value: "up", text: "bottom up" },
  { value: "around", text: "sandwich" },
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
  context.store.follow(["filter"], ({ filter }) => {
    follow(context, shape, filter).then(show);
  });
  context.store.on(["search", "basis"], show);
  const key = make("ul", { class: "legend", "aria-label": "Colours of the flame graph" }, colourKey(context));
  return make("section", { class: "plots" }, controls, rooms, key, make("p", { class: "faint" }, words(context)));
}

const KINDS: [string, string][] = [
  ["cpu-op", "module"],
  ["random", "range"],
  ["other-call", "pass"],
  ["python-function", "op"],
  ["launch-call", "call"],
];

function colourKey(context: Context): HTMLElement[] {
  const outer = new Set(context.traces.map(({ entry }) => (entry.flame.has_modules ? "module" : "range")));
  const kinds = KINDS.filter(([, kind]) => (kind === "module" || kind === "range" ? outer.has(kind) : true));
  const groups = gpuGroups(context).map((group) => [group, group.replaceAll("_", " ")]);
  return [...kinds, ...groups].map(([colour, text]) => make("li", {}, swatch(context.colours.of(colour)), text));
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
    const last = shape.way === "around" && key === "way" ? endOf(filter) : null;
    if (isBox(filter)) context.store.set({ filter: last === null ? "" : `@ ${last}` });
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
    isBox(context.store.state.filter) ? button("show all work", () => context.store.set({ filter: "" })) : null,
  ];
}

// A filter that comes from a box: a path, or a function wherever it is called.
const isBox = (filter: string) => isPath(filter) || functionIn(filter) !== null;

// A box in the filter may be of another graph than the one that is shown: show that one.
async function follow({ traces }: Context, shape: Shape, filter: string): Promise<void> {
  if (!isBox(filter)) return;
  const name = functionIn(filter),
    way = name === null ? "down" : "around";
  if (way === "around") shape.way = way;
  const has = (boxes: Boxes) => (name === null ? boxes.find(filter) !== null : boxes.named(name).length > 0);
  const holds = async (each: Chosen) => (await Promise.all(traces.map((trace) => boxesFor(trace, each)))).some(has);
  if (await holds(shape)) return;
  for (const { time, by } of traces[0]?.entry.flame.trees ?? []) {
    for (const layers of ["folded", "each"]) {
      const wanted = { time, by, layers, way };
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
    "From the bottom up the innermost comes first, and below it what launched it. " +
    "The sandwich has one function wherever it is called: its callers above it, and below it what it calls."
  );
}

// The flame graph of one trace: a box that is chosen is the filter of the page.

interface Shape {
  time: string; // gpu, host
  by: string; // module, op
  pass: string; // empty: all
  layers: string; // folded, each
  way: string; // down, up, around
}

class TraceFlame {
  private readonly graph: FlameGraph;
  private readonly above: FlameGraph; // the callers of a sandwich
  private readonly upper = make("div");
  private readonly table = make("div");
  private listed: { boxes: Boxes; pass: string; rows: FunctionRow[]; grid: Grid } | null = null;
  private middle = ""; // the function of a sandwich
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
    const flames = {
      measure: () => `${TIMES[this.shape.time]}${this.middle && ` of ${this.middle}`}${this.per()}`,
      text: timeText,
      left: () => this.left(),
      choose: (box: Box) => this.choose(box),
      back: () => store.set({ filter: "" }),
      colour: ({ kind, name }: Box) => (kind === "kernel" && roles.has(name) ? colours.of(roles.get(name) ?? "") : undefined),
      isFound,
    };
    room.append(this.upper);
    this.graph = new FlameGraph(room, flames);
    this.above = new FlameGraph(this.upper, { ...flames, turned: this.graph.line });
    room.append(this.table);
    context.pictures.push({ title: `Flame graph of ${trace.entry.title}`, svg: () => this.graph.plot.svg });
  }

  show(boxes: Boxes, shape: Shape, filter: string): void {
    this.shape = { ...shape };
    if (this.boxes !== boxes) this.widened = null;
    this.boxes = boxes;
    const sandwich = shape.way === "around";
    this.middle = "";
    this.table.hidden = !sandwich;
    replace(this.upper, sandwich ? this.above.plot.node : null);
    if (sandwich) {
      this.surround(boxes, functionIn(filter));
      return;
    }
    const focus = shape.way === "up" ? this.widened : boxes.find(filter);
    this.graph.show(boxes, focus, shape.pass, `Flame graph of ${TIMES[shape.time]} by ${shape.by}`);
  }

  // Callers above, callees below, and the table to choose from: the function of most own time, until one is chosen.
  private surround(boxes: Boxes, wanted: string | null): void {
    const { rows, grid } = this.functions(boxes);
    const most = rows.reduce<FunctionRow | null>((best, row) => (best && best.own >= row.own ? best : row), null);
    const name = wanted ?? most?.name ?? "",
      { callers, callees } = around(boxes, name),
      [caller, callee] = [callers.root.parts[0] ?? null, callees.root.parts[0] ?? null];
    this.middle = callee ? labelOf(callee) : name;
    grid.mark(rows.findIndex((row) => row.name === name));
    this.above.show(callers, caller, this.shape.pass, `Callers of ${this.middle}`, 2);
    this.graph.show(callees, callee, this.shape.pass, `What ${this.middle} calls`, callee ? 1 : 0);
  }

  private functions(boxes: Boxes): { rows: FunctionRow[]; grid: Grid } {
    const { pass } = this.shape;
    if (this.listed?.boxes === boxes && this.listed.pass === pass) return this.listed;
    const rows = functionsOf(boxes, boxes.passes.indexOf(pass)).sort((a, b) => b.own - a.own),
      whole = rows.reduce((sum, { own }) => sum + own, 0);
    const title = `Functions of ${this.trace.facts.title} by own ${TIMES[this.shape.time]}${this.per()}`;
    const table = tableOf<FunctionRow>(
      title,
      [
        ["own share", "share", ({ own }) => own / whole],
        ["own", "ns", ({ own }) => own],
        ["with callees", "ns", ({ total }) => total],
        ["function", "words", ({ name }) => name],
        ["kind", "words", ({ kind }) => kind],
      ],
      rows,
    );
    const grid = new Grid(table, { onRow: (at) => this.put(rows[at].name) });
    replace(this.table, make("h3", {}, nameOf(title)), grid.node);
    this.listed = { boxes, pass, rows, grid };
    return this.listed;
  }

  private put(name: string): void {
    this.context.store.set({ filter: `@ ${name}` });
    this.context.say(`The sandwich and the timeline show ${name}.`);
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
    if (this.shape.way === "around") {
      this.put(box.name);
      return;
    }
    let meant: Box = box;
    while (meant.kind === "call" && meant.above?.above) meant = meant.above;
    this.context.store.set({ filter: pathOf(meant) });
    this.context.say(box.above ? `The timeline shows the work of ${meant.name}.` : "The timeline shows all work.");
  }
}
