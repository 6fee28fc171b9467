// An event: what it is, what launched it or what it launched, its operands; for a kernel all that is known about it.

import { button, type Child, make, nameOf } from "../../base/dom";
import { timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { Events } from "../../data/events";
import { kernelParts } from "./kernel";
import { columns, head, pairs, type Select, titled } from "./parts";

const MOST_LISTED = 12;
const MODULE = "nn.Module: ";

export async function eventPanel(context: Context, number: number, event: number): Promise<Child[]> {
  const trace = context.traces[number];
  const events = trace ? new Events(trace.facts, await trace.source.details(event)) : null;
  const at = events?.find(event) ?? -1;
  if (!trace || !events || at < 0) return [make("p", { class: "faint" }, "This event is not in the report.")];
  const select: Select = (each) => context.store.set({ selection: { kind: "event", trace: number, event: each } });
  const own = events.isGpuWork(at) ? await kernelParts(context, trace, events, at, select) : [launchedPart(events, at, select)];
  return [
    head(nameOf(events.label(at)), make("span", { class: "faint" }, about(context, trace, events, at))),
    columns(chainPart(events, at, select), ...own, operandsPart(trace, operandsOf(events, at))),
  ];
}

function about({ traces }: Context, trace: Shown, events: Events, at: number): string {
  const role = events.kernel(at)?.role;
  const kind = role ? `kernel · ${role.replaceAll("_", " ")}` : events.kind(at).replaceAll("_", " ");
  const where = trace.facts.lanes[events.lane[at]].label;
  const parts = [kind, timeText(events.length[at]), `starts at ${timeText(events.start[at] - trace.zero)}`, where];
  const mark = events.mark?.[at] ?? -1;
  if (mark >= 0) parts.push(`${trace.facts.marks[mark]} in the comparison`);
  if (traces.length > 1) parts.push(trace.facts.title);
  return parts.join(", ");
}

// Ops and calls; frames of Python are there on demand.
function chainPart(events: Events, at: number, select: Select): HTMLElement | null {
  const chain = events.chain(at);
  const isFrame = (up: number) => events.kind(up) === "python_function" && !events.name(up).startsWith(MODULE);
  const link = (up: number) =>
    make(
      "li",
      {},
      button(nameOf(events.label(up)), () => select(events.event[up]), { class: "link", title: events.name(up) }),
    );
  const list = (some: number[]) => make("ol", { class: "chain" }, some.map(link));
  const frames = chain.filter(isFrame);
  if (!chain.length) {
    return events.isGpuWork(at) ? titled("Launched by", make("p", {}, "unknown: the launch is not in the trace")) : null;
  }
  return titled(
    events.isGpuWork(at) ? "Launched by" : "Inside",
    list(chain.filter((up) => !isFrame(up))),
    frames.length ? make("details", {}, make("summary", {}, `Python frames (${frames.length})`), list(frames)) : null,
  );
}

function launchedPart(events: Events, at: number, select: Select): HTMLElement | null {
  const work = events.launchedBy(at);
  if (!work.length) return null;
  const link = (each: number) =>
    make(
      "li",
      {},
      button(nameOf(events.label(each)), () => select(events.event[each]), { class: "link" }),
      ` ${timeText(events.length[each])}`,
    );
  const rest = work.length > MOST_LISTED ? make("li", { class: "faint" }, `and ${work.length - MOST_LISTED} more`) : null;
  return titled(`Launched (${work.length})`, make("ul", { class: "plain" }, work.slice(0, MOST_LISTED).map(link), rest));
}

// A kernel has the operands of the op that launched it.
function operandsOf(events: Events, at: number): number {
  if (!events.isGpuWork(at)) return events.shape[at];
  const shaped = events
    .chain(at)
    .map((up) => events.shape[up])
    .filter((shape) => shape >= 0);
  return shaped.at(-1) ?? events.kernel(at)?.shape ?? -1;
}

// One row per operand: its sizes, type and strides, or the value of a number.
function operandsPart({ facts }: Shown, number: number): HTMLElement | null {
  const rows = facts.shapes[number];
  return rows?.length ? titled("Operands", pairs(rows)) : null;
}
