// Memory over time, where the trace has it: allocated and reserved, the peak, and who holds it.

import { button, make, nameOf, replace } from "../base/dom";
import { bytesText, numberText, percentText, timeText } from "../base/units";
import type { Context, Shown } from "../core/context";
import { lineOf } from "../core/memoryline";
import { framed } from "../core/places";
import type { Column } from "../core/rows";
import type { MemoryPage, PeakHolder } from "../data/documents";
import { Grid } from "./grid";
import { MemoryGraph } from "./memorygraph";
import { choice } from "./plotting";

const ENGINE = /^autograd::engine::evaluate_function: /;
const BEFORE = "allocated before the recording";

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
  lineOf(page).then((line) => {
    const graph = new MemoryGraph(context, trace, page, line);
    const peak = button("go to the peak", () => graph.goToPeak());
    replace(room, graph.node, make("div", { class: "controls" }, peak, graph.words));
  });
  return make("div", {}, title, room, holders(context, trace, page), notes(trace, page));
}

function holders(context: Context, trace: Shown, page: MemoryPage): HTMLElement {
  const rows = page.holders.slice();
  if (page.before_bytes) rows.push({ ops: [BEFORE], modules: [], ran: "", bytes: page.before_bytes, count: 0, event: -1 });
  const share = (row: PeakHolder) => (page.relative ? null : row.bytes / page.peak_bytes);
  const columns: Column<PeakHolder>[] = [
    { title: "share", kind: "share", value: share, text: (row) => percentText(share(row)) },
    { title: "bytes", kind: "number", value: (row) => row.bytes, text: (row) => bytesText(row.bytes), unit: "B" },
    { title: "count", kind: "number", value: (row) => row.count || null, text: (row) => numberText(row.count || null) },
    { title: "op", kind: "name", value: (row) => opText(row), hint: (row) => row.ops.join(" > ") },
    {
      title: trace.entry.flame.has_modules ? "module" : "range",
      kind: "words",
      value: (row) => row.modules.at(-1) ?? "",
      hint: (row) => row.modules.join(" > "),
    },
    { title: "pass", kind: "words", value: (row) => row.ran },
  ];
  const caption = `Who holds the peak of ${bytesText(page.peak_bytes)} on ${page.device}`;
  return new Grid<PeakHolder>(columns, rows, { caption, sort: "bytes", onRow: (row) => select(context, trace, row) }).node;
}

// The outermost op and the one that allocates.
function opText({ ops }: PeakHolder): string {
  const names = ops.map((name) => name.replace(ENGINE, ""));
  if (!names.length) return "no op recorded";
  return names[0] === names.at(-1) ? names[0] : `${names[0]} > ${names.at(-1)}`;
}

// The op that made the largest of these allocations.
async function select(context: Context, trace: Shown, { event }: PeakHolder): Promise<void> {
  if (event < 0) return;
  const selection = { kind: "event", trace: trace.index, event } as const;
  context.store.set({ selection });
  const known = await trace.source.details(event),
    at = known.event.indexOf(event);
  const view = at < 0 ? null : framed(trace, { frame: [known.start[at], known.start[at] + known.length[at]] });
  if (view) context.store.set({ selection, view });
}

function notes(trace: Shown, page: MemoryPage): HTMLElement[] {
  const said = [
    `The peak is at ${timeText(page.peak_ns - trace.zero)} on the ruler. The share of a row is of the peak.`,
    page.before_bytes ? `${bytesText(page.before_bytes)} of it were ${BEFORE}: the trace does not tell by whom.` : "",
    page.relative ? "The trace has no totals: allocated counts from the first memory event." : "",
    page.holders_left_out ? `${numberText(page.holders_left_out)} smaller rows are not in the page.` : "",
    page.points_left_out ? `${numberText(page.points_left_out)} memory events lie between those that are drawn.` : "",
  ];
  return said.filter(Boolean).map((text) => make("p", { class: "faint" }, text));
}
