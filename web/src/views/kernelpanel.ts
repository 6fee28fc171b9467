// A kernel: its module, queue delay, roofs, the same kernel in other steps, its findings, source and name.

import { button, type Child, make, nameOf } from "../base/dom";
import { bytesText, flopsText, numberText, timeText } from "../base/units";
import type { Context, Shown } from "../core/context";
import { queueDelay } from "../core/delay";
import { pointed } from "../core/places";
import type { Columns } from "../data/columns";
import type { CaseRow, NameParts } from "../data/documents";
import type { Events } from "../data/events";
import { codeParts } from "./codepart";
import { standInPart, stepsPart } from "./otherlaunches";
import { bar, bars, pairs, type Select, titled } from "./panelparts";

const MODULE = "nn.Module: ";
const SAID = new Set(["device", "stream"]); // the head has them

export async function kernelParts(context: Context, trace: Shown, events: Events, at: number, select: Select): Promise<Child[]> {
  const kernel = events.kernel(at);
  const launches = kernel ? await trace.source.launches(events.case[at]) : null;
  return [
    launchPart(trace, events, at),
    kernel ? roofPart(context, trace, kernel) : null,
    kernel && launches ? stepsPart(context, trace, kernel, launches, events.event[at], select) : null,
    standInPart(context, trace, events.event[at]),
    findingsPart(context, trace, events.event[at], launches),
    ...codeParts(events.origin(at)),
    configPart(trace, events.config[at]),
    namePart(events, at),
  ];
}

function launchPart({ entry }: Shown, events: Events, at: number): HTMLElement {
  const apart = entry.look.ledger.notes.some(({ code }) => code === "clock_mismatch");
  return titled(
    "Launch",
    pairs([
      ["module", moduleOf(events, at)],
      ["source", sourceOf(events, at)],
      ["queue delay", apart ? "unknown: two clocks" : delay(events, at)],
    ]),
  );
}

// Grid, block, registers and the rest, as far as they were recorded.
function configPart({ facts }: Shown, config: number): HTMLElement | null {
  const values = facts.configs[config] ?? [];
  const text = (value: unknown) => (typeof value === "number" ? numberText(value, 2) : String(value));
  const shown = facts.configNames.flatMap((name, at) =>
    values[at] == null || SAID.has(name) ? [] : [`${name.replaceAll("_", " ")} ${text(values[at])}`],
  );
  return shown.length ? titled("Launch configuration", make("p", {}, nameOf(shown.join(", ")))) : null;
}

function delay(events: Events, at: number): string {
  const waited = queueDelay(events, at);
  if (waited === null) return "unknown: the launch is not in the trace";
  return waited < 0 ? "unknown: it starts before its launch" : `${timeText(waited)} from its launch call to its start`;
}

// The line of the user's Python that launched it, where stacks were recorded; compiled kernels have theirs in `codepart`.
function sourceOf(events: Events, at: number): string {
  if (events.origin(at)?.lines.length) return "";
  const lines = events.chain(at).map((up) => events.facts.codeLines[events.nameNumber[up]]);
  return lines.filter(Boolean).at(-1) ?? "";
}

// The nn.Module whose forward or backward pass launched it.
function moduleOf(events: Events, at: number): string {
  const own = events.module?.[at] ?? -1;
  if (own < 0) return "";
  const name = events.facts.names[own];
  const forward = events.chain(at).some((up) => events.nameNumber[up] === own);
  return `${name.startsWith(MODULE) ? name.slice(MODULE.length) : name}${forward ? "" : " (backward)"}`;
}

function roofPart({ colours }: Context, { facts }: Shown, kernel: CaseRow): HTMLElement {
  const rates = [
    kernel.tflops === null ? "" : `${flopsText(kernel.flops)}, ${numberText(kernel.tflops, 1)} TFLOP/s`,
    kernel.bytes === null ? "" : `${bytesText(kernel.bytes)}${kernel.gbps === null ? "" : `, ${numberText(kernel.gbps)} GB/s`}`,
  ];
  const roof = facts.roofs ? `of ${facts.roofs.name}, ${facts.roofs.measured ? "as measured" : "by its datasheet"}` : "";
  return titled(
    kernel.roofs.length ? "Percent of each roof" : "Roofs",
    kernel.roofs.length
      ? bars(
          kernel.roofs.map(({ roof, percent }) =>
            bar(percent / 100, colours.group(kernel.role), roofName(roof), `${numberText(percent, 1)}%`),
          ),
        )
      : make("p", {}, kernel.cost_note || "unknown: its work is not in the trace"),
    pairs([
      ["limited by", kernel.limited_by || "unknown"],
      ["work", rates[0]],
      ["traffic", rates[1]],
      ["cost", kernel.roofs.length ? [kernel.cost_certainty.replaceAll("_", " "), kernel.cost_note].filter(Boolean).join(": ") : ""],
      ["roofs", kernel.roofs.length ? roof : ""],
    ]),
  );
}

function roofName(roof: string): string {
  return roof === "HBM" || roof === "L2" ? roof : `${roof.replaceAll("_", " ")} peak`;
}

// Findings about this launch, and those about other launches of the kernel.
function findingsPart({ store }: Context, trace: Shown, event: number, launches: Columns | null): HTMLElement | null {
  const same = new Set(launches?.event ?? [event]);
  const { look, places } = trace.entry;
  const found = places.filter((_, at) => look.findings[at].state === "found" && look.findings[at].events.some((each) => same.has(each)));
  if (!found.length) return null;
  const link = (place: (typeof places)[number]) => {
    const finding = look.findings[places.indexOf(place)];
    const others = finding.events.includes(event) ? "" : " (other launches)";
    return make(
      "li",
      {},
      button(nameOf(finding.title), () => store.set(pointed(trace, place)), { class: "link" }),
      others,
    );
  };
  return titled(found.length === 1 ? "Its finding" : "Its findings", make("ul", { class: "plain" }, found.map(link)));
}

// The name as the trace writes it, and what its parts mean, on demand.
function namePart(events: Events, at: number): HTMLElement {
  const decoded: NameParts | undefined = events.decoded(at);
  const row = ([text, , meaning, certainty]: NameParts["parts"][number]) =>
    make("tr", {}, make("td", {}, nameOf(text || "(not there)")), make("td", {}, meaning), make("td", { class: "faint" }, certainty));
  return make(
    "details",
    { class: "wide" },
    make("summary", {}, decoded ? `Name, part by part (${decoded.family})` : "Name"),
    make("p", {}, nameOf(events.name(at), { class: "name whole" })),
    decoded?.parts.length ? make("table", {}, make("tbody", {}, decoded.parts.map(row))) : null,
  );
}
