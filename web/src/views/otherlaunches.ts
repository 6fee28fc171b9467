// The same kernel elsewhere: in other steps of its trace, and what stands for it in the traces beside it.

import { button, make, nameOf } from "../base/dom";
import { numberText, timeText } from "../base/units";
import type { Context, Shown } from "../core/context";
import type { Joins, Place } from "../core/joins";
import type { Columns } from "../data/columns";
import type { CaseRow } from "../data/documents";
import { bar, bars, pairs, type Select, titled } from "./panelparts";

const MOST_STEPS = 12;
const MOST_LISTED = 4;

// All launches of a kernel: their spread, and in every step the launch in the same place as this one.
export function stepsPart(
  { colours }: Context,
  { facts }: Shown,
  kernel: CaseRow,
  { event, length, step }: Columns,
  own: number,
  select: Select,
): HTMLElement {
  const at = event.indexOf(own);
  const inStep = (number: number) => [...event.keys()].filter((each) => step[each] === number);
  const turn = inStep(step[at]).indexOf(at);
  const row = (name: string, number: number) => {
    const other = step[at] >= 0 ? inStep(number)[turn] : undefined;
    if (other === undefined) return null;
    const words = other === at ? make("b", {}, nameOf(name)) : button(nameOf(name), () => select(event[other]), { class: "link" });
    return bar(length[other] / (kernel.max_ns || 1), colours.group(kernel.role), words, inAll(length[other], kernel.steps[number]));
  };
  const rows = facts.steps.map(({ name }, number) => row(name, number)).filter((each) => each !== null);
  const more = rows.length - MOST_STEPS;
  const spread = `${timeText(kernel.min_ns)} to ${timeText(kernel.max_ns)}, median ${timeText(kernel.median_ns)}`;
  return titled(
    rows.length > 1 ? "The same kernel in other steps" : "All launches of this kernel",
    rows.length > 1
      ? bars(rows.slice(0, MOST_STEPS), more > 0 ? make("li", { class: "faint" }, `and ${numberText(more)} more steps`) : null)
      : null,
    pairs([
      ["launches", numberText(kernel.count)],
      ["spread", kernel.count > 1 ? spread : ""],
      ["total", timeText(kernel.total_ns)],
    ]),
  );
}

// The time of one launch, and of all launches of its step where there are several.
function inAll(ns: number, step: CaseRow["steps"][number] | undefined): string {
  const [count, total] = step ?? [1, ns];
  return count > 1 ? `${timeText(ns)}, ${numberText(count)}× ${timeText(total)}` : timeText(ns);
}

// What a comparison puts in the place of this event.
export function standInPart(context: Context, trace: Shown, event: number): HTMLElement | null {
  const found = context.joins.flatMap((joins) => {
    const place = joins.holding(trace.index, event);
    return place ? [standIn(context, joins, place, joins.pair.a === trace.index ? 1 : 0)] : [];
  });
  return found.length ? titled("In the other traces", make("ul", { class: "plain" }, found)) : null;
}

function standIn({ traces, store }: Context, joins: Joins, place: Place, other: 0 | 1): HTMLElement {
  const trace = traces[other ? joins.pair.b : joins.pair.a];
  const side = place.sides[other];
  const link = (event: number, at: number) => {
    const name = trace.facts.kernels[side?.cases[at] ?? -1]?.short ?? "copy or fill";
    return make(
      "li",
      {},
      button(nameOf(name), () => store.set({ selection: { kind: "event", trace: trace.index, event } }), { class: "link" }),
    );
  };
  const more = (side?.events.length ?? 0) - MOST_LISTED;
  const work = side
    ? make(
        "ul",
        {},
        side.events.slice(0, MOST_LISTED).map(link),
        more > 0 ? make("li", { class: "faint" }, `and ${numberText(more)} more`) : null,
      )
    : null;
  return make(
    "li",
    {},
    nameOf(trace.facts.title),
    `: ${side ? `${timeText(side.to - side.from)} in its place` : "nothing in its place"}`,
    work,
  );
}
