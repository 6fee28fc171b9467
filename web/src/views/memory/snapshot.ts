// A device of a snapshot: the answers, live bytes over time with a switch, the chosen allocation, and the tables of the peak.

import { make, replace } from "../../base/dom";
import { bytesText, numberText, percentText, timeText } from "../../base/units";
import { type Axis, type Band, Grouping, LiveStack } from "../../core/livestack";
import type { Column } from "../../core/rows";
import { unpack } from "../../data/columns";
import type { DeviceDrawing, MemoryLine, MemoryPart } from "../../data/documents";
import { Grid } from "../page/grid";
import { choice } from "../page/plotting";
import { sectionNode } from "../page/written";
import { AllocationPanel, lifeText } from "./allocation";
import { StackGraph } from "./stackgraph";

export interface SnapshotView {
  top: HTMLElement;
  tables: HTMLElement;
  stack: LiveStack;
  groupings: Grouping[];
}

export async function snapshotView(drawing: DeviceDrawing): Promise<SnapshotView> {
  const [points, boxes, frames] = await Promise.all([drawing.points, drawing.boxes, drawing.stacks.boxes].map(unpack));
  const stack = new LiveStack(points, boxes);
  const groupings = await Promise.all(drawing.groups.map(async (groups) => new Grouping(groups, await unpack(groups.held), boxes)));
  const panel = new AllocationPanel(drawing, stack, frames);
  let grouping = groupings[0],
    axis: Axis = "event";
  const choose = (band: Band) => (band.box >= 0 ? select(band.box) : panel.showSmaller(band, grouping));
  const graph = new StackGraph(drawing, stack, grouping, choose);
  const select = (box: number) => {
    panel.show(box);
    graph.mark(box);
  };
  const switches = make("div", { class: "controls" });
  const show = () => {
    graph.show(grouping, axis);
    const bys = groupings.map(({ groups: { by } }) => ({ value: by, text: `by ${by}` }));
    const axes = [
      { value: "event", text: "events" },
      { value: "time", text: "time" },
    ];
    replace(
      switches,
      choice("Colours", bys, grouping.groups.by, (by) => {
        grouping = groupings.find(({ groups }) => groups.by === by) ?? grouping;
        graph.show(grouping, axis);
      }),
      choice("Axis", axes, axis, (value) => {
        axis = value as Axis;
        graph.show(grouping, axis);
      }),
    );
  };
  show();
  const first = stack.liveAt(drawing.peak_event)[0];
  if (first !== undefined) panel.show(first);
  const top = make(
    "div",
    {},
    sectionNode(drawing.head),
    make(
      "section",
      { class: "plots", "aria-label": "Live bytes" },
      make("h3", {}, "Live bytes"),
      switches,
      graph.node,
      graph.tools,
      notes(drawing, stack),
      panel.node,
    ),
  );
  return { top, tables: tables(drawing, stack, select), stack, groupings };
}

function notes(drawing: DeviceDrawing, { boxes, length }: LiveStack): HTMLElement {
  const drawn = boxes.size.length,
    { allocations, points_left_out, steps_left_out } = drawing;
  const said = [
    `${numberText(drawn)} of ${numberText(allocations)} allocations are drawn one by one; the other ${numberText(allocations - drawn)} are the "smaller" of their group, and counted in full.`,
    points_left_out
      ? `The graph has ${numberText(length)} moments, each exact; ${numberText(points_left_out)} events lie between them.`
      : "Every event of the history is in the graph.",
    steps_left_out ? `${numberText(steps_left_out)} steps are too many to be marked.` : drawing.steps.length ? "Dotted: a new step." : "",
    "A pixel shows its moment with the most live bytes. Drag to widen a part.",
  ];
  return make("p", { class: "faint" }, said.filter(Boolean).join(" "));
}

function tables(drawing: DeviceDrawing, stack: LiveStack, select: (box: number) => void): HTMLElement {
  const { by_line, by_module, rows_left_out } = drawing;
  return make(
    "div",
    {},
    new Grid<MemoryLine>(lineColumns(), by_line, { caption: "At the peak, by line", sort: "bytes" }).node,
    by_module.length ? new Grid<MemoryPart>(moduleColumns(), by_module, { caption: "At the peak, by module", sort: "bytes" }).node : null,
    rows_left_out ? make("p", { class: "faint" }, `${numberText(rows_left_out)} smaller rows are not in the page.`) : null,
    allocationGrid(drawing, stack, select).node,
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

function allocationGrid(drawing: DeviceDrawing, stack: LiveStack, select: (box: number) => void): Grid<Held> {
  const { boxes } = stack,
    { lines, modules, categories, peak_bytes, peak_event } = drawing;
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
