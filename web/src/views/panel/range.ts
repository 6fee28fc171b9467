// The statistics of a range, for each trace: how busy the GPU is, why it is idle, and where its time goes.

import { button, type Child, make, nameOf } from "../../base/dom";
import { bytesText, flopsText, numberText, percentText, rateText, timeText } from "../../base/units";
import { type Context, ownTime, type Shown } from "../../core/context";
import { type ColumnOf, tableOf } from "../../core/rows";
import type { Part, Range, RangeStats } from "../../data/source";
import { Grid } from "../page/grid";
import { bars, columns, head, meter, pairs, titled } from "./parts";

const MOST_GROUPS = 8;
const MOST_KERNELS = 8;
const OUTSIDE = "before the first step or after the last event";

export async function rangePanel(context: Context, range: Range): Promise<Child[]> {
  const stats = await Promise.all(context.traces.map((trace) => trace.source.rangeStats(ownTime(trace, range))));
  const several = context.traces.length > 1;
  return [
    head(
      `${timeText(range.to - range.from)} from ${timeText(range.from)} to ${timeText(range.to)}`,
      button("zoom to it", () => context.store.set({ view: range })),
    ),
    several ? together(context.traces, stats) : null,
    ...context.traces.flatMap((trace, at) => [
      several ? make("h4", { class: "trace" }, nameOf(trace.facts.title)) : null,
      statistics(context, trace, stats[at]),
    ]),
  ];
}

function together(traces: readonly Shown[], stats: readonly RangeStats[]): HTMLElement {
  const idle = ({ busyNs, gpus, to, from }: RangeStats) => (busyNs === null ? null : gpus * (to - from) - busyNs);
  const columns: ColumnOf<RangeStats>[] = [
    ["trace", "words", (each) => traces[stats.indexOf(each)].facts.title],
    ["GPU busy", "ns", ({ busyNs }) => busyNs],
    ["GPU idle", "ns", idle],
    ["launches", "count", ({ launches }) => launches],
    ["kernels", "count", ({ kernels }) => countOf(kernels)],
    ["bytes", "bytes", ({ bytes }) => bytes],
    ["FLOPs", "flops", ({ flops }) => flops],
  ];
  return new Grid(tableOf("Traces in this range", columns, stats), { plain: true }).node;
}

function countOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { count }) => sum + count, 0);
}

function statistics(context: Context, trace: Shown, stats: RangeStats): HTMLElement {
  const { leftOut } = trace.facts;
  const selectFirst = async (kernel: number) => {
    const { event, start, length } = await trace.source.launches(kernel);
    const at = start.findIndex((each, place) => each + length[place] > stats.from);
    if (at >= 0) context.store.set({ selection: { kind: "event", trace: trace.index, event: event[at] } });
  };
  return columns(
    gpuPart(trace, stats),
    workPart(stats),
    partsPart("GPU time by group", stats.groups, MOST_GROUPS, (part) => {
      const name = trace.facts.groups[part.number] ?? "other";
      return meter(part.ns / (stats.busyNs || 1), context.colours.of(name), name.replaceAll("_", " "), figure(part));
    }),
    partsPart("GPU time by kernel", stats.kernels, MOST_KERNELS, (part) => {
      const { short, role } = trace.facts.kernels[part.number];
      const link = button(nameOf(short), () => selectFirst(part.number), { class: "link" });
      return meter(part.ns / (stats.busyNs || 1), context.colours.of(role), link, figure(part));
    }),
    leftOut ? make("p", { class: "warning" }, `${numberText(leftOut)} events are not in this page: these figures lack them.`) : null,
  );
}

function gpuPart({ facts }: Shown, stats: RangeStats): HTMLElement {
  const { busyNs, gpus } = stats;
  if (busyNs === null) return titled("GPU", make("p", {}, "The trace has no GPU work."));
  const whole = gpus * (stats.to - stats.from);
  const share = (ns: number) => `${timeText(ns)} (${percentText(ns / whole)})`;
  const words = new Map(facts.idle?.causes);
  const causes = stats.idle.map(({ cause, ns, count }) =>
    make(
      "li",
      {},
      `${timeText(ns)} ${words.get(cause) ?? OUTSIDE}`,
      cause === "outside" ? null : make("span", { class: "faint" }, ` in ${numberText(count)} ${count === 1 ? "gap" : "gaps"}`),
    ),
  );
  return titled(
    gpus > 1 ? `${gpus} GPUs together` : "GPU",
    pairs([
      ["busy", make("strong", {}, share(busyNs))],
      ["idle", make("strong", {}, share(whole - busyNs))],
    ]),
    causes.length ? make("ul", { class: "causes" }, causes) : null,
  );
}

function workPart(stats: RangeStats): HTMLElement {
  const length = stats.to - stats.from;
  const kernelNs = stats.kernels.reduce((sum, { ns }) => sum + ns, 0);
  const part = (ns: number) => (ns < kernelNs * 0.9995 ? `, known for ${percentText(ns / kernelNs)} of kernel time` : "");
  const unknown = "unknown: no kernel here has a cost";
  const { bytes, flops, costedNs } = stats;
  return titled(
    "Work",
    pairs([
      ["launches", numberText(stats.launches)],
      ["kernels", numberText(countOf(stats.kernels))],
      ["bytes", bytes === null ? unknown : `${bytesText(bytes)} (${rateText(bytes / length)}${part(costedNs.bytes)})`],
      ["FLOPs", flops === null ? unknown : `${flopsText(flops)} (${numberText(flops / length / 1e3, 1)} TFLOP/s${part(costedNs.flops)})`],
    ]),
  );
}

function partsPart(title: string, parts: readonly Part[], most: number, row: (part: Part) => HTMLElement): HTMLElement | null {
  if (!parts.length) return null;
  const rest = parts.slice(most);
  const restNs = rest.reduce((sum, { ns }) => sum + ns, 0);
  return titled(
    title,
    bars(
      parts.slice(0, most).map(row),
      rest.length ? make("li", { class: "faint" }, `and ${numberText(rest.length)} more: ${timeText(restNs)}`) : null,
    ),
  );
}

function figure({ ns, count }: Part): string {
  return `${timeText(ns)} · ${numberText(count)}×`;
}
