// A kernel: its module, queue delay, roofs, the same kernel in other steps, its findings, source and name.

import { button, type Child, linkItem, make, nameOf } from "../../base/dom";
import { frameText, isModule } from "../../base/frames";
import { numberText, timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import type { Joins, Place } from "../../core/joins";
import { pointed } from "../../core/places";
import { queueDelay } from "../../core/related";
import type { Columns } from "../../data/columns";
import type { Insight, KernelOrigin, NameParts, PageKernel, RoofShare } from "../../data/documents";
import type { Events } from "../../data/events";
import { bars, meter, pairs, type Select, small, titled } from "./parts";

export async function kernelParts(context: Context, trace: Shown, events: Events, at: number, select: Select): Promise<Child[]> {
  const kernel = events.kernel(at);
  const config = trace.facts.configs[events.config[at]];
  const launches = kernel ? await trace.source.launches(events.case[at]) : null;
  return [
    launchPart(trace, events, at),
    kernel ? roofPart(context, kernel) : null,
    kernel && launches ? stepsPart(context, trace, kernel, launches, events.event[at], select) : null,
    standInPart(context, trace, events.event[at]),
    findingsPart(context, trace, events.event[at], launches),
    ...codeParts(events.origin(at)),
    config ? titled("Launch configuration", make("p", {}, nameOf(config))) : null,
    namePart(events, at),
  ];
}

function launchPart({ entry }: Shown, events: Events, at: number): HTMLElement {
  const waited = queueDelay(events, at);
  const delay =
    waited !== null && waited < 0 ? "unknown: it starts before its launch" : `${timeText(waited)} from its launch call to its start`;
  // the line of the user's Python, where stacks were recorded; compiled kernels have theirs below
  const lines = events.origin(at)?.lines.length ? [] : events.chain(at).map((up) => events.facts.codeLines[events.nameNumber[up]]);
  return titled(
    "Launch",
    pairs([
      ["module", moduleOf(events, at)],
      ["source", lines.filter(Boolean).at(-1) ?? ""],
      ["queue delay", !entry.clocks_agree ? "unknown: two clocks" : waited === null ? "unknown: the launch is not in the trace" : delay],
    ]),
  );
}

// The nn.Module whose forward or backward pass launched it.
function moduleOf(events: Events, at: number): string {
  const own = events.module?.[at] ?? -1;
  if (own < 0) return "";
  const name = events.facts.names[own];
  const forward = events.chain(at).some((up) => events.nameNumber[up] === own);
  return `${isModule(name) ? frameText(name) : name}${forward ? "" : " (backward)"}`;
}

function roofPart({ colours }: Context, { roofs, role, about }: PageKernel): HTMLElement {
  const share = ({ roof, percent }: RoofShare) => {
    const name = roof === "HBM" || roof === "L2" ? roof : `${roof.replaceAll("_", " ")} peak`;
    return meter(percent / 100, colours.of(role), name, `${numberText(percent, 1)}%`);
  };
  return titled(roofs.length ? "Percent of each roof" : "Roofs", roofs.length ? bars(roofs.map(share)) : null, pairs(about));
}

// Fixes and findings about this launch, and those about other launches of the kernel.
function findingsPart({ store }: Context, trace: Shown, event: number, launches: Columns | null): HTMLElement | null {
  const same = new Set(launches?.event ?? [event]);
  const found = trace.entry.insights.filter(({ about, place }) => about !== "fix" && place.events.some(([each]) => same.has(each)));
  if (!found.length) return null;
  const link = (insight: Insight) => {
    const others = insight.place.events.some(([each]) => each === event) ? "" : " (other launches)";
    return linkItem(nameOf(insight.title), () => store.set(pointed(trace, insight)), others);
  };
  return titled(found.length === 1 ? "Its finding" : "Its findings", make("ul", { class: "plain" }, found.map(link)));
}

// The name as the trace writes it, and what its parts mean, on demand.
function namePart(events: Events, at: number): HTMLElement {
  const decoded: NameParts | undefined = events.decoded(at);
  const rows = decoded?.parts.map(([text, , meaning, certainty]) => [text || "(not there)", meaning, certainty]);
  return make(
    "details",
    { class: "wide" },
    make("summary", {}, decoded ? `Name, part by part (${decoded.family})` : "Name"),
    make("p", {}, nameOf(events.name(at), { class: "name whole" })),
    rows?.length ? small("Name, part by part", ["part", "meaning", "certainty"], rows) : null,
  );
}

// Where a compiled kernel comes from: the user's lines, what it moves, and the code that was generated for it.

function codeParts(origin: KernelOrigin | undefined): Child[] {
  if (!origin) return [];
  const line = ([place, code]: [string, string]) => make("li", {}, nameOf(place), code ? [" ", make("code", {}, nameOf(code))] : null);
  return [
    origin.lines.length ? titled("Source", make("ul", { class: "plain" }, origin.lines.map(line))) : null,
    origin.nodes.length ? titled("Graph nodes", make("p", {}, nameOf(origin.nodes.join(", ")))) : null,
    origin.moves.length ? titled("Loads and stores", small("Loads and stores", ["what", "tensor", "bytes"], origin.moves)) : null,
    origin.code ? codePart(origin) : null,
  ];
}

function codePart({ language, code }: KernelOrigin): HTMLElement {
  const summary = make("summary", {}, `Generated code (${language}, ${numberText(code.split("\n").length)} lines)`);
  return make("details", { class: "wide code" }, summary, make("pre", { tabindex: "0" }, nameOf(code)));
}

// The same kernel elsewhere: in other steps of its trace, and what stands for it in the traces beside it.

const MOST_STEPS = 12;
const MOST_LISTED = 4;

// All launches of a kernel: their spread, and in every step the launch in the same place as this one.
function stepsPart(
  { colours }: Context,
  { facts }: Shown,
  kernel: PageKernel,
  launches: Columns,
  own: number,
  select: Select,
): HTMLElement {
  const { event, length, step } = launches;
  const at = event.indexOf(own);
  const inStep = (number: number) => [...event.keys()].filter((each) => step[each] === number);
  const turn = inStep(step[at]).indexOf(at);
  const row = (name: string, number: number) => {
    const other = step[at] >= 0 ? inStep(number)[turn] : undefined;
    if (other === undefined) return null;
    const words = other === at ? make("b", {}, nameOf(name)) : button(nameOf(name), () => select(event[other]), { class: "link" });
    return meter(length[other] / (kernel.max_ns || 1), colours.of(kernel.role), words, inAll(length[other], kernel.steps[number]));
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
function inAll(ns: number, step: PageKernel["steps"][number] | undefined): string {
  const [count, total] = step ?? [1, ns];
  return count > 1 ? `${timeText(ns)}, ${numberText(count)}× ${timeText(total)}` : timeText(ns);
}

function standInPart(context: Context, trace: Shown, event: number): HTMLElement | null {
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
    return linkItem(nameOf(name), () => store.set({ selection: { kind: "event", trace: trace.index, event } }));
  };
  const { events = [] } = side ?? {},
    more = events.length > MOST_LISTED ? make("li", { class: "faint" }, `and ${numberText(events.length - MOST_LISTED)} more`) : null;
  const said = side ? `${timeText(side.to - side.from)} in its place` : "nothing in its place",
    work = side ? make("ul", {}, events.slice(0, MOST_LISTED).map(link), more) : null;
  return make("li", {}, nameOf(trace.facts.title), `: ${said}`, work);
}
