// A device of a snapshot: the answers, live bytes over time with a switch, the chosen allocation, and the tables of the peak.

import { make, replace } from "../../base/dom";
import { bytesText, numberText, percentText, timeText } from "../../base/units";
import { type Axis, type Band, loadPart, type Part } from "../../core/livestack";
import type { Column } from "../../core/rows";
import type { DeviceDrawing, DrawnPart, MemoryLine, MemoryPart } from "../../data/documents";
import { Grid } from "../page/grid";
import { choice } from "../page/plotting";
import { sectionNode } from "../page/written";
import { AllocationPanel, lifeText } from "./allocation";
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
  const show = () => graph.show(by, axis);
  const bys = drawing.groups.map((each, at) => ({ value: each.by, text: `by ${each.by}`, at }));
  const axes = [
    { value: "event", text: "events" },
    { value: "time", text: "time" },
  ];
  const switches = make(
    "div",
    { class: "controls" },
    choice("Colours", bys, bys[0].value, (chosen) => {
      by = bys.findIndex(({ value }) => value === chosen);
      show();
    }),
    choice("Axis", axes, axis, (chosen) => {
      axis = chosen as Axis;
      show();
    }),
  );
  const first = all.stack.liveAt(drawing.peak_event)[0];
  if (first !== undefined) panel.show(all, first);
  replace(said, notes(drawing, all));
  const title = make("h3", {}, "Live bytes"),
    named = { class: "plots", "aria-label": "Live bytes" };
  replace(view.top, sectionNode(drawing.head), make("section", named, title, switches, graph.node, graph.tools, said, panel.node));
  replace(
    view.tables,
    tables(drawing, all, (box) => select(all, box)),
  );
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

function tables(drawing: DeviceDrawing, all: Part, select: (box: number) => void): HTMLElement {
  const { by_line, by_module, rows_left_out } = drawing;
  return make(
    "div",
    {},
    new Grid<MemoryLine>(lineColumns(), by_line, { caption: "At the peak, by line", sort: "bytes" }).node,
    by_module.length ? new Grid<MemoryPart>(moduleColumns(), by_module, { caption: "At the peak, by module", sort: "bytes" }).node : null,
    rows_left_out ? make("p", { class: "faint" }, `${numberText(rows_left_out)} smaller rows are not in the page.`) : null,
    allocationGrid(drawing, all, select).node,
  );
}

function lineColumns(): Column<MemoryLine>[] {
  return [
    ...sizes<MemoryLine>(),
    { title: "tensors", kind: "number", value: (row) => row.count, text: (row) => numberText(row.count) },
    { title: "line", kind: "name", value: (row) => row.line, most: 420 },
    { title: "is", kind: "words", value: (row) => row.category },
    { title: "live for", kind: "number", value: (row) => row.live_ns, text: (row) => timeText(row.live_ns), unit: "ns" },
  ];
}

function moduleColumns(): Column<MemoryPart>[] {
  return [
    ...sizes<MemoryPart>(),
    { title: "tensors", kind: "number", value: (row) => row.count, text: (row) => numberText(row.count) },
    { title: "module", kind: "name", value: (row) => row.name, most: 420 },
  ];
}

function sizes<Row extends { share: number; bytes: number }>(): Column<Row>[] {
  return [
    { title: "share", kind: "share", value: (row) => row.share, text: (row) => percentText(row.share) },
    { title: "bytes", kind: "number", value: (row) => row.bytes, text: (row) => bytesText(row.bytes), unit: "B" },
  ];
}

interface Held {
  box: number;
  bytes: number;
  share: number;
}

function allocationGrid(drawing: DeviceDrawing, { stack, drawn }: Part, select: (box: number) => void): Grid<Held> {
  const { boxes } = stack,
    { lines, modules } = drawn,
    { categories, peak_bytes, peak_event } = drawing;
  const rows = stack.liveAt(peak_event).map((box) => ({ box, bytes: boxes.size[box], share: boxes.size[box] / (peak_bytes || 1) }));
  const since = (box: number) => (boxes.start[box] < 0 ? null : boxes.start_ns[box]);
  const columns: Column<Held>[] = [
    ...sizes<Held>(),
    { title: "line", kind: "name", value: ({ box }) => lines[boxes.named[box]], most: 420 },
    { title: "is", kind: "words", value: ({ box }) => categories[boxes.is[box]] },
    { title: "allocated", kind: "number", value: ({ box }) => since(box), text: ({ box }) => timeText(since(box)), unit: "ns" },
    {
      title: "live for",
      kind: "number",
      value: ({ box }) => boxes.end_ns[box] - boxes.start_ns[box],
      text: ({ box }) => lifeText(drawing, boxes, box),
      unit: "ns",
    },
  ];
  if (modules.length) columns.splice(4, 0, { title: "module", kind: "words", value: ({ box }) => modules[boxes.owner[box]] });
  return new Grid(columns, rows, {
    caption: "The largest allocations at the peak",
    sort: "bytes",
    onRow: ({ box }) => select(box),
  });
}
