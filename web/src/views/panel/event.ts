// An event: what it is, what launched it or what it launched, its operands; for a kernel all that is known about it.

import { type Child, linkItem, make, nameOf } from "../../base/dom";
import { isModule } from "../../base/frames";
import { timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { Events } from "../../data/events";
import { kernelParts } from "./kernel";
import { columns, head, pairs, type Select, titled } from "./parts";

const MOST_LISTED = 12;

export async function eventPanel(context: Context, number: number, event: number): Promise<Child[]> {
  const trace = context.traces[number];
  const events = trace ? new Events(trace.facts, await trace.source.details(event)) : null;
  const at = events?.find(event) ?? -1;
  if (!trace || !events || at < 0) return [make("p", { class: "faint" }, "This event is not in the report.")];
  const select: Select = (each) => context.store.set({ selection: { kind: "event", trace: number, event: each } });
  const own = events.isGpuWork(at) ? await kernelParts(context, trace, events, at, select) : [launchedPart(events, at, select)];
  const operands = trace.facts.shapes[operandsOf(events, at)]; // sizes, type and strides, or the value of a number
  return [
    head(nameOf(events.label(at)), make("span", { class: "faint" }, about(context, trace, events, at))),
    columns(chainPart(events, at, select), ...own, operands?.length ? titled("Operands", pairs(operands)) : null),
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
  const isFrame = (up: number) => events.kind(up) === "python_function" && !isModule(events.name(up));
  const link = (up: number) => linkItem(nameOf(events.label(up), { title: events.name(up) }), () => select(events.event[up]));
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
    linkItem(nameOf(events.label(each)), () => select(events.event[each]), ` ${timeText(events.length[each])}`);
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
