// What a page answers before any click: what bounds a step, what to do first, where the time goes. All of it is written by Python.

import "./answers.css";
import { hatch } from "../../base/colours";
import { button, type Child, jointed, make, nameOf, replace } from "../../base/dom";
import type { Context, Shown } from "../../core/context";
import { pointed } from "../../core/places";
import type { Basis, Part, WhereRow } from "../../data/documents";
import { savesNode } from "../findings/insights";
import { bar, stacked } from "../page/bars";
import { copyButton } from "../page/copying";
import { CAUSES, swatch } from "../page/legend";

const MOST_NAMED = 5; // parts of the stacked bar that are named below it
const WORDS: Record<string, string> = { GPU: "GPU", "CPU TIME": "CPU", "NO GPU TIME": "unknown" };

export function answers(context: Context): HTMLElement | null {
  if (context.traces.length > 1) return null;
  const [trace] = context.traces;
  const node = make("section", { class: "answers", "aria-label": "Answers" });
  context.store.follow(["basis", "filter"], () => replace(node, bound(context, trace), first(context, trace), where(context, trace)));
  return node;
}

// The step or the recording, as the switch says; a trace may have only one of them.
export function basisOf({ store }: Context, { entry }: Shown): Basis | undefined {
  const { bases } = entry.answers;
  return bases[store.state.basis === "recording" ? bases.length - 1 : 0];
}

function answer(kind: string, title: string, about: Child, ...children: Child[]): HTMLElement {
  return make(
    "article",
    { class: `answer ${kind}` },
    make("h3", {}, title, about ? make("span", { class: "faint" }, " ", about) : null),
    ...children,
  );
}

// One word, the sentence of the terminal, and a step in parts: GPU work in the colours of the timeline, then idle time by cause.
function bound(context: Context, trace: Shown): HTMLElement {
  const { word, text } = trace.entry.answers;
  const basis = basisOf(context, trace);
  return answer(
    "bound",
    "Bound by",
    null,
    make("p", { class: "word" }, WORDS[word] ?? word.toLowerCase()),
    make("p", { class: "told", title: text }, nameOf(text)),
    basis ? composition(context, basis) : null,
  );
}

function composition(context: Context, { label, parts }: Basis): HTMLElement {
  const text = (part: Part) => `${nameOfPart(part)} ${part.text} (${part.percent})`;
  const shares = parts.map((part) => ({ share: part.share, colour: fill(context, part), title: text(part), kind: part.kind }));
  const named = [...parts].sort((a, b) => b.share - a.share).slice(0, MOST_NAMED);
  return make(
    "div",
    { class: "composition" },
    bar(stacked(shares), { class: "stack", role: "img", "aria-hidden": null, "aria-label": `${label}: ${parts.map(text).join(", ")}` }),
    make(
      "ul",
      { class: "parts" },
      make("li", { class: "faint" }, label),
      named.map((part) => make("li", { title: text(part) }, swatch(fill(context, part)), `${nameOfPart(part)} ${part.percent}`)),
    ),
  );
}

function nameOfPart({ kind, name }: Part): string {
  return kind === "idle" ? `idle: ${CAUSES[name] ?? name}` : name.replaceAll("_", " ");
}

function fill({ colours }: Context, { kind, name }: Part): string {
  if (kind === "idle") return hatch(name, colours.idle(name));
  return kind === "cpu" ? cpuColour(name) : colours.of(name);
}

// Ops of a CPU have no group: each has a shade by its name.
function cpuColour(name: string): string {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.charCodeAt(0)) % 997;
  return `color-mix(in srgb, var(--cpu-op) ${30 + (sum % 60)}%, var(--gemm))`;
}

// The first fix with its code and its times, and the next one; or why there is none.
function first(context: Context, trace: Shown): HTMLElement {
  const { first: said, then } = trace.entry.answers;
  const fix = trace.entry.insights.find(({ label }) => label === "DO FIRST");
  if (!fix)
    return answer("first", "Do first", null, make("p", { class: "word nothing" }, "nothing"), make("p", { class: "told" }, nameOf(said)));
  const go = () => context.store.set(pointed(trace, fix));
  return answer(
    "first",
    "Do first",
    null,
    make("p", { class: "order", title: said }, button(jointed(fix.title), go, { class: "link" })),
    fix.code ? make("p", { class: "code" }, make("code", {}, nameOf(fix.code)), copyButton(fix.code)) : null,
    savesNode(fix),
    make("p", { class: "told", title: said }, nameOf(fix.detail)),
    then ? make("p", { class: "then", title: then }, make("b", {}, "Then "), nameOf(then)) : null,
  );
}

// Six rows on one scale, which is all of the time; a click leaves that work alone on the timeline.
function where(context: Context, trace: Shown): HTMLElement {
  const basis = basisOf(context, trace);
  const about = basis ? `${basis.unit} time ${basis.per}` : null;
  const rows = basis?.rows.map((row) => whereRow(context, row)) ?? [];
  const none = make("p", { class: "told" }, "No GPU work with a time was recorded.");
  return answer("where", "Where it goes", about, rows.length ? make("ul", { class: "rows" }, rows) : none);
}

function whereRow({ store }: Context, { name, share, time, percent, about, filter }: WhereRow): HTMLElement {
  const isOn = filter !== "" && store.state.filter === filter;
  const inside = [
    nameOf(name, { class: "name" }),
    bar(share),
    make("span", { class: "time" }, time),
    make("span", { class: "share" }, percent),
  ];
  if (!filter) return make("li", { class: "row", title: about }, inside);
  const press = () => store.set({ filter: isOn ? "" : filter });
  return make("li", {}, button(inside, press, { class: "row", title: about, "aria-pressed": String(isOn) }));
}
