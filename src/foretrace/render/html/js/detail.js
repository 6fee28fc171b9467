// The detail panel: everything known about the selected event.

import { button, make, nameOf, replace } from "./dom.js";
import { bytesText, flopsText, numberText, timeText } from "./units.js";

const MOST_LISTED = 12;

export function showDetail(panel, events, at, zero, select) {
  if (at < 0) return replace(panel, make("p", { class: "faint" }, "Select an event to see what it is and what launched it."));
  const facts = events.facts, kernel = events.kernel(at), decoded = events.decoded(at);
  return replace(panel,
    make("h3", {}, nameOf(decoded?.short || events.name(at))),
    decoded ? make("p", {}, nameOf(events.name(at), { class: "name whole" })) : null,
    make("p", {}, `${kindText(events, at)}, ${timeText(events.length[at])}, starts at ${timeText(events.start[at] - zero)}`),
    markText(events, at),
    ownNote(events, at),
    chainList(events, at, select),
    launchedList(events, at, select),
    originPart(events.origin(at)),
    shapeTable(facts.shapes.get(shapeOf(events, at))),
    kernel ? costTable(kernel) : null,
    configTable(facts, events.config[at]),
    decoded?.parts.length ? partsTable(decoded) : null);
}

function kindText(events, at) {
  const kernel = events.kernel(at);
  return kernel ? `kernel · ${kernel.role}` : events.kind(at).replaceAll("_", " ");
}

function markText(events, at) {
  const mark = events.mark?.[at] ?? -1;
  return mark >= 0 ? make("p", {}, `Compared with the other trace: ${events.facts.marks[mark]}.`) : null;
}

function ownNote(events, at) {
  const text = events.note?.(at);
  return text ? make("p", {}, nameOf(text)) : null;
}

function chainList(events, at, select) {
  const chain = events.chain(at);
  if (!chain.length) return null;
  const link = (up) => make("li", {}, button(nameOf(events.name(up)), () => select(up), { class: "link" }));
  return titled(events.isGpuWork(at) ? "Launched by" : "Inside", make("ol", { class: "chain" }, chain.map(link)));
}

function launchedList(events, at, select) {
  if (events.isGpuWork(at)) return null;
  const work = events.launchedBy(at);
  if (!work.length) return null;
  const link = (each) => make("li", {}, button(nameOf(events.label(each)), () => select(each), { class: "link" }),
    ` ${timeText(events.length[each])}`);
  const rest = work.length > MOST_LISTED ? [make("li", {}, `and ${work.length - MOST_LISTED} more`)] : [];
  return titled(`Launched (${work.length})`, make("ul", {}, work.slice(0, MOST_LISTED).map(link), rest));
}

// Where a compiled kernel comes from: the user's lines, what it moves, and the code that was generated for it.
function originPart(origin) {
  if (!origin) return null;
  const line = ([place, code]) => make("li", {}, nameOf(place), code ? [" ", make("code", {}, nameOf(code))] : null);
  const move = ([mode, tensor, bytes]) => make("tr", {}, make("td", { class: "left" }, mode),
    make("td", { class: "left" }, nameOf(tensor)), make("td", {}, bytes));
  return make("div", { class: "origin" },
    origin.lines.length ? titled("Source", make("ul", {}, origin.lines.map(line))) : null,
    origin.nodes.length ? titled("Graph nodes", make("p", {}, nameOf(origin.nodes.join(", ")))) : null,
    origin.moves.length ? titled("Loads and stores", make("table", {}, make("tbody", {}, origin.moves.map(move)))) : null,
    origin.code ? codePart(origin) : null);
}

function codePart({ language, code }) {
  const count = numberText(code.split("\n").length);
  return make("details", { class: "code" }, make("summary", {}, `Generated code (${language}, ${count} lines)`),
    make("pre", { tabindex: "0" }, nameOf(code)));
}

// A kernel has the shapes of the op that launched it.
function shapeOf(events, at) {
  if (!events.isGpuWork(at)) return events.shape[at];
  return events.chain(at).map((up) => events.shape[up]).filter((shape) => shape >= 0).at(-1) ?? events.kernel(at)?.shape;
}

function shapeTable(shape) {
  if (!shape) return null;
  const rows = [["sizes", shape.dims], ["types", shape.types], ["values", shape.concrete]];
  return titled("Operands", pairs(rows.filter(([, value]) => value)));
}

function costTable(kernel) {
  return titled("This kernel in the whole trace", pairs([
    ["launches", numberText(kernel.count)], ["median", timeText(kernel.median_ns)], ["total", timeText(kernel.total_ns)],
    ["work", flopsText(kernel.flops)], ["traffic", bytesText(kernel.bytes)], ["bound", kernel.bound],
    ["rate", kernel.tflops === null ? "–" : `${numberText(kernel.tflops, 1)} TFLOP/s`],
    ["bandwidth", kernel.gbps === null ? "–" : `${numberText(kernel.gbps)} GB/s`], ["cost", kernel.cost_note ?? ""],
  ].filter(([, value]) => value !== "")));
}

function configTable(facts, number) {
  if (number < 0) return null;
  const rows = facts.configNames.map((name, at) => [name.replaceAll("_", " "), facts.configs[number][at]]);
  return titled("Launch", pairs(rows.filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)])));
}

function partsTable(decoded) {
  const row = ([text, , meaning, certainty]) => make("tr", {}, make("td", { class: "left" }, nameOf(text || "(not there)")),
    make("td", { class: "left" }, meaning), make("td", { class: "left faint" }, certainty));
  return titled(`The name, part by part (${decoded.family})`, make("table", {}, make("tbody", {}, decoded.parts.map(row))));
}

function pairs(rows) {
  return make("dl", {}, rows.map(([term, value]) => [make("dt", {}, term), make("dd", {}, nameOf(value))]));
}

function titled(title, node) {
  return make("section", {}, make("h4", {}, title), node);
}
