// Where GPU time goes, kernels by name and sizes, and ops by host time: one set of tables for each trace.

import { type Child, make, nameOf, replace } from "../../base/dom";
import { foldedNames } from "../../base/frames";
import { bytesText, flopsText, numberText, percentText, rateText, timeText } from "../../base/units";
import { type Context, type Shown, shared } from "../../core/context";
import { chosenCases } from "../../core/flame";
import type { Column } from "../../core/rows";
import type { GroupRow, PageKernel, StepOp } from "../../data/documents";
import { Grid } from "../page/grid";

// A kernel is shown with as much time around it as this many of its lengths.
const AROUND = 12;
const LEAST_NS = 200;

export function kernelTab(context: Context): HTMLElement | null {
  if (!context.traces.some(({ entry }) => entry.kernels.length || entry.look.ops.length)) return null;
  const node = make("section", { "aria-label": "Kernels and ops" });
  let stops: (() => void)[] = [];
  const show = () => {
    for (const stop of stops) stop(); // tables that are gone listen no more
    stops = [];
    replace(
      node,
      context.traces.map((trace) => tables(context, trace, stops)),
    );
  };
  context.store.on(["basis"], show);
  show();
  return node;
}

function tables(context: Context, trace: Shown, stops: (() => void)[]): Child[] {
  const { kernels, look } = trace.entry;
  if (!kernels.length && !look.ops.length) return [];
  const title = context.traces.length > 1 ? make("h3", {}, nameOf(trace.facts.title)) : null;
  const rows = kernels.length ? kernelGrid(context, trace, stops) : null,
    ops = look.ops.length ? opGrid(context, trace) : null;
  stops.push(followFilter(context, trace, rows, ops));
  return [title, groupGrid(context, trace), rows?.node, ops?.node];
}

// Whether times are per step; a trace without steps has only its recording.
function perStep({ store }: Context, { entry }: Shown): boolean {
  return store.state.basis === "step" && entry.look.steps.length > 0;
}

function per(context: Context, trace: Shown): string {
  const { steps } = trace.entry.look;
  return perStep(context, trace) ? `per step (mean of ${numberText(steps.length)})` : "in the recording";
}

// GPU time by what the model's author would call it: those of the answer, and its basis.
function groupGrid(context: Context, trace: Shown): HTMLElement | null {
  const basis = trace.entry.answers.bases.at(context.store.state.basis === "recording" ? -1 : 0);
  const groups = (basis === trace.entry.answers.bases[0] ? trace.entry.look.groups : trace.entry.groups) ?? [];
  if (!basis || !groups.length) return null;
  return new Grid<GroupRow>(
    [
      share((row) => row.share),
      number("time", (row) => row.time, timeText, "ns"),
      number("count", (row) => row.count),
      { title: "where GPU time goes", kind: "name", value: (row) => row.name },
      { title: "limited by", kind: "words", most: 290, value: (row) => row.limited_by, hint: (row) => row.limited_by },
    ],
    groups,
    { caption: `Where GPU time goes, ${basis.per}` },
  ).node;
}

function kernelGrid(context: Context, trace: Shown, stops: (() => void)[]): Grid<PageKernel> {
  const { facts } = trace;
  const steps = perStep(context, trace);
  const count = trace.entry.look.steps.length;
  const total = ({ in_steps_ns: ns, total_ns }: PageKernel) => (steps ? ns && ns / count : total_ns);
  const whole = facts.kernels.reduce((sum, row) => sum + (total(row) ?? 0), 0);
  const lines = (row: PageKernel) => facts.origins.every[facts.origins.of[row.first]]?.lines.map(([place]) => place).join(", ") ?? "";
  const grid = new Grid<PageKernel>(
    [
      share((row) => {
        const ns = total(row);
        return ns === null || !whole ? null : ns / whole;
      }),
      number("total", total, timeText, "ns"),
      number(
        "count",
        (row) => (steps ? row.per_step : row.count),
        (value) => numberText(value, 2),
      ),
      number("median", (row) => row.median_ns, timeText, "ns"),
      { title: "kernel", kind: "name", value: (row) => row.short, hint: (row) => row.name },
      { title: "op", kind: "words", value: (row) => row.ops.join(", "), hint: (row) => row.chain.join(" > ") },
      {
        title: "limit",
        kind: "words",
        most: 290,
        value: (row) => row.limited_by || row.bound,
        hint: (row) => row.limited_by || row.bound,
      },
      ...(facts.kernels.some(({ modules }) => modules.length)
        ? [
            {
              title: "modules",
              kind: "words",
              optional: true,
              value: (row) => foldedNames(row.modules),
              hint: (row) => row.modules.join(", "),
            } as Column<PageKernel>,
          ]
        : []),
      { title: "sizes", kind: "words", value: (row) => facts.shapes.get(row.shape)?.dims ?? "", optional: true },
      {
        ...number<PageKernel>(
          "TFLOP/s",
          (row) => row.tflops,
          (value) => numberText(value, 1),
        ),
        optional: true,
      },
      { ...number<PageKernel>("bandwidth", (row) => row.gbps, rateText, "GB/s"), optional: true },
      { ...number<PageKernel>("work", (row) => row.flops, flopsText, "FLOP"), optional: true },
      { ...number<PageKernel>("traffic", (row) => row.bytes, bytesText, "B"), optional: true },
      { title: "role", kind: "words", value: (row) => row.role, optional: true },
      ...(facts.origins.every.length ? [{ title: "source", kind: "words", value: lines, optional: true } as Column<PageKernel>] : []),
    ],
    facts.kernels,
    {
      caption: `Kernels of ${facts.title} by name and sizes, ${per(context, trace)}`,
      sort: "total",
      onRow: (row) => goToKernel(context, trace, row),
      words: (row) => [row.short, row.name, row.role, ...row.ops, ...row.chain, row.limited_by, lines(row)].join("\n"),
      filter: { label: "Filter kernels", changed: (filter) => context.store.set({ filter }) },
    },
  );
  stops.push(followSelection(context, trace, grid));
  return grid;
}

function opGrid(context: Context, trace: Shown): Grid<StepOp> {
  const { host_times_profiled } = trace.entry.look;
  const ops: StepOp[] = perStep(context, trace) ? trace.entry.step_ops : trace.entry.look.ops;
  const whole = ops.reduce((sum, row) => sum + row.self_cpu_ns, 0);
  const profiled = host_times_profiled ? " (includes profiler overhead)" : "";
  const count = (value: number | null) => numberText(value, 2);
  return new Grid<StepOp>(
    [
      share((row) => (whole ? row.self_cpu_ns / whole : null)),
      number("self", (row) => row.self_cpu_ns, timeText, "ns"),
      number("total", (row) => row.total_cpu_ns, timeText, "ns"),
      number("count", (row) => row.count, count),
      { title: "op", kind: "name", value: (row) => row.name },
      number("kernels", (row) => row.kernels, count),
      number("GPU time", (row) => row.gpu_ns, timeText, "ns"),
    ],
    ops,
    {
      caption: `Ops of ${trace.facts.title} by their own host time, ${per(context, trace)}${profiled}`,
      sort: "self",
      onRow: (row) => context.store.set({ search: row.name }),
      filter: { label: "Filter ops", changed: (filter) => context.store.set({ filter }) },
    },
  );
}

function share<Row>(value: (row: Row) => number | null): Column<Row> {
  return { title: "share", kind: "share", value, text: (row) => percentText(value(row)) };
}

function number<Row>(
  title: string,
  value: (row: Row) => number | null,
  show: (value: number | null) => string = numberText,
  unit = "",
): Column<Row> {
  return { title, kind: "number", value, text: (row) => show(value(row)), unit };
}

// The filter is a text, or a path of the flame graph, which only kernels have.
function followFilter(context: Context, trace: Shown, kernels: Grid<PageKernel> | null, ops: Grid<StepOp> | null): () => void {
  const follow = async () => {
    const { filter } = context.store.state;
    const cases = await chosenCases(trace, filter);
    if (filter !== context.store.state.filter) return; // a later one is on its way
    const rows = cases && new Set(Array.from(cases, (number) => trace.facts.kernels[number]));
    kernels?.filterBy(filter, rows && ((row) => rows.has(row)));
    ops?.filterBy(cases ? "" : filter);
  };
  follow();
  return context.store.on(["filter"], follow);
}

// The kernel of the selected event is marked in the table.
function followSelection(context: Context, trace: Shown, grid: Grid<PageKernel>): () => void {
  return context.store.on(["selection"], async ({ selection }) => {
    const event = selection?.kind === "event" && selection.trace === trace.index ? selection.event : null;
    const found = event === null ? null : await trace.source.details(event).catch(() => null);
    if (selection !== context.store.state.selection) return; // a later one is on its way
    const at = found ? found.event.indexOf(event ?? -1) : -1;
    grid.mark((at >= 0 && trace.facts.kernels[found?.case[at] ?? -1]) || null);
  });
}

// Its first launch in the step that the page opens at, or else anywhere.
async function goToKernel(context: Context, trace: Shown, row: PageKernel): Promise<void> {
  const select = (event: number) => ({ selection: { kind: "event" as const, trace: trace.index, event } });
  const launches = await trace.source.launches(trace.facts.kernels.indexOf(row)).catch(() => null);
  if (!launches?.event.length) return context.store.set(select(row.first));
  const at = Math.max(
    0,
    launches.start.findIndex((start) => start >= trace.zero),
  );
  const start = launches.start[at],
    length = launches.length[at];
  const room = Math.max(length * AROUND, LEAST_NS) / 2;
  context.store.set({ ...select(launches.event[at]), view: shared(trace, { from: start - room, to: start + length + room }) });
}
