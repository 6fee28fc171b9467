// A device of a snapshot: the answers, live bytes over time with a switch, the chosen allocation, and the tables of the peak.

import { make, replace } from "../../base/dom";
import { numberText } from "../../base/units";
import { type Axis, type Band, loadPart, type Part } from "../../core/livestack";
import type { DeviceDrawing, DrawnPart } from "../../data/documents";
import { tableNode } from "../page/grid";
import { choice } from "../page/plotting";
import { tablesNode } from "../page/tables";
import { AllocationPanel } from "./allocation";
import { StackGraph } from "./stackgraph";

export interface SnapshotView {
  top: HTMLElement;
  tables: HTMLElement;
  part: Part; // what is drawn
}

// `ask` gets a part of the history from a server, where the page has one.
export async function snapshotView(drawing: DeviceDrawing, ask: Ask | null): Promise<SnapshotView> {
  const all = await loadPart(drawing.whole, drawing.groups),
    panel = new AllocationPanel(drawing),
    said = make("p", { class: "faint" });
  const view: SnapshotView = { top: make("div"), tables: make("div"), part: all };
  let by = 0,
    axis: Axis = "event";
  const select = (part: Part, box: number) => {
    panel.show(part, box);
    graph.mark(part.stack.boxes.row[box]);
  };
  const choose = (band: Band) =>
    band.box >= 0 ? select(view.part, band.box) : panel.showSmaller(band, view.part.groupings[by], view.part);
  const use = (part: Part) => {
    if (part === view.part) return;
    view.part = part;
    graph.use(part);
    replace(said, notes(drawing, part));
  };
  const details = ask ? new Details(drawing, all, ask, use) : null;
  const graph = new StackGraph(drawing, all, choose, (from, to) => details?.look(from, to));
  const bys = drawing.groups.map((each, at) => ({ value: each.by, text: `by ${each.by}`, at }));
  const axes = [
    { value: "event", text: "events" },
    { value: "time", text: "time" },
  ];
  const colour = choice("Colours", bys, bys[0].value, (chosen) => {
    by = bys.findIndex(({ value }) => value === chosen);
    graph.show(by, axis);
  });
  const along = choice("Axis", axes, axis, (chosen) => {
    axis = chosen as Axis;
    graph.show(by, axis);
  });
  const first = all.stack.liveAt(drawing.peak_event)[0];
  if (first !== undefined) panel.show(all, first);
  replace(said, notes(drawing, all));
  const switches = make("div", { class: "controls" }, colour, along),
    parts = [make("h3", {}, "Live bytes"), switches, graph.node, graph.tools, said, panel.node];
  replace(view.top, tableNode(drawing.head), make("section", { class: "plots", "aria-label": "Live bytes" }, parts));
  const tables = tablesNode(drawing.tables, (to) => select(all, all.stack.boxes.row.indexOf(Number(to.slice("row ".length)))));
  replace(view.tables, tables);
  return view;
}

export type Ask = (from: number, to: number) => Promise<DrawnPart>;

const PAUSE_MS = 150; // a person is still zooming

// More of what is in view, where the whole has left events out.
class Details {
  private asked = 0;
  private known: [number, number] = [0, 0]; // the events of the part that is drawn

  constructor(
    private readonly drawing: DeviceDrawing,
    private readonly all: Part,
    private readonly ask: Ask,
    private readonly use: (part: Part) => void,
  ) {}

  look(from: number, to: number): void {
    const number = ++this.asked,
      first = Math.floor(from),
      last = Math.ceil(to) + 1;
    if (first < this.known[0] || last > this.known[1]) this.use(this.all);
    if (!this.all.drawn.left_out || last - first >= this.drawing.events) return;
    setTimeout(async () => {
      if (number !== this.asked) return;
      const part = await loadPart(await this.ask(first, last), this.drawing.groups);
      if (number !== this.asked) return;
      this.known = [first, last];
      this.use(part);
    }, PAUSE_MS);
  }
}

function notes(drawing: DeviceDrawing, { stack, drawn }: Part): string {
  const shown = stack.boxes.size.length,
    { allocations, steps_left_out } = drawing,
    isWhole = drawn === drawing.whole,
    part = isWhole ? "" : " in view",
    others = isWhole ? `other ${numberText(allocations - shown)}` : "others";
  const said = [
    `${numberText(shown)} of ${numberText(allocations)} allocations are drawn one by one; the ${others} are the "smaller" of their group, and counted in full.`,
    drawn.left_out
      ? `The graph has ${numberText(stack.length)} moments${part}, each exact; ${numberText(drawn.left_out)} events lie between them.`
      : `Every event${part || " of the history"} is in the graph.`,
    steps_left_out ? `${numberText(steps_left_out)} steps are too many to be marked.` : drawing.steps.length ? "Dotted: a new step." : "",
    "A pixel shows its moment with the most live bytes. Drag to widen a part.",
  ];
  return said.filter(Boolean).join(" ");
}
