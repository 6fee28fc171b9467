// What a page answers before any click: what bounds a step, what to do first, where the time goes. All of it is written by Python.

import "./answers.css";
import { hatch } from "../../base/colours";
import { button, type Child, jointed, make, nameOf, replace } from "../../base/dom";
import { numberText, percentText, timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { pointed } from "../../core/places";
import type { Basis, TimePart, WhereRow } from "../../data/documents";
import { bar, stacked } from "../page/bars";
import { copyButton } from "../page/copying";
import { CAUSES, swatch } from "../page/legend";
import { times } from "../page/predicted";

const MOST_NAMED = 5; // parts of the stacked bar that are named below it
const WORDS: Record<string, string> = { GPU: "GPU", "CPU TIME": "CPU", "NO GPU TIME": "unknown" };

export function answers(context: Context): HTMLElement | null {
  if (context.traces.length > 1) return null;
  const [trace] = context.traces;
  const node = make("section", { class: "answers", "aria-label": "Answers" });
  const show = () => replace(node, bound(context, trace), first(context, trace), where(context, trace));
  context.store.on(["basis", "filter"], show);
  show();
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

function composition(context: Context, { per, composition: whole }: Basis): HTMLElement {
  const parts = whole.parts.map((part) => ({ part, share: part.ns / (whole.wall_ns || 1) }));
  const shares = parts.map(({ part, share }) => ({ share, colour: fill(context, part), title: partText(part, share), kind: part.kind }));
  const named = [...parts].sort((a, b) => b.share - a.share).slice(0, MOST_NAMED);
  const recorded = whole.recorded_ns ? `, recorded ${timeText(whole.recorded_ns)} with the profiler` : "";
  const label = `${timeText(whole.wall_ns)} ${per}${recorded}`;
  const words = parts.map(({ part, share }) => partText(part, share)).join(", ");
  return make(
    "div",
    { class: "composition" },
    bar(stacked(shares), { class: "stack", role: "img", "aria-hidden": null, "aria-label": `${label}: ${words}` }),
    make(
      "ul",
      { class: "parts" },
      make("li", { class: "faint" }, label),
      named.map(({ part, share }) =>
        make("li", { title: partText(part, share) }, swatch(fill(context, part)), `${nameOfPart(part)} ${percentText(share)}`),
      ),
    ),
  );
}

function partText(part: TimePart, share: number): string {
  return `${nameOfPart(part)} ${timeText(part.ns)} (${percentText(share)})`;
}

function nameOfPart({ kind, name }: TimePart): string {
  return kind === "idle" ? `idle: ${CAUSES[name] ?? name}` : name.replaceAll("_", " ");
}

function fill({ colours }: Context, { kind, name }: TimePart): string {
  if (kind === "idle") return hatch(name, colours.idle(name));
  return kind === "cpu" ? cpuColour(name) : colours.group(name);
}

// Ops of a CPU have no group: each has a shade by its name.
function cpuColour(name: string): string {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.charCodeAt(0)) % 997;
  return `color-mix(in srgb, var(--cpu-op) ${30 + (sum % 60)}%, var(--gemm))`;
}

// The first fix with its code and its times, and the next one; or why there is none.
function first(context: Context, trace: Shown): HTMLElement {
  const { cards, first: said, then } = trace.entry.answers;
  const card = cards.find(({ label }) => label === "DO FIRST");
  if (!card)
    return answer("first", "Do first", null, make("p", { class: "word nothing" }, "nothing"), make("p", { class: "told" }, nameOf(said)));
  const place = trace.entry.fix_places.find(({ key }) => key === card.key);
  const go = () => place && context.store.set(pointed(trace, place));
  return answer(
    "first",
    "Do first",
    null,
    make("p", { class: "order", title: said }, button(jointed(card.order), go, { class: "link" })),
    card.code ? make("p", { class: "code" }, make("code", {}, nameOf(card.code)), copyButton(card.code)) : null,
    times(trace, card),
    make("p", { class: "told", title: said }, nameOf(card.needs ? `${card.why}; without ${card.needs}` : card.why)),
    then ? make("p", { class: "then", title: then }, make("b", {}, "Then "), nameOf(then)) : null,
  );
}

// Six rows on one scale, which is all of the time; a click leaves that work alone on the timeline.
function where(context: Context, trace: Shown): HTMLElement {
  const basis = basisOf(context, trace);
  const cpu = trace.entry.look.cpu.length > 0;
  const about = basis ? `${cpu ? "CPU" : "GPU"} time ${basis.per}` : null;
  const rows = basis?.rows.map((row) => whereRow(context, row)) ?? [];
  const none = make("p", { class: "told" }, "No GPU work with a time was recorded.");
  return answer("where", "Where it goes", about, rows.length ? make("ul", { class: "rows" }, rows) : none);
}

function whereRow({ store }: Context, row: WhereRow): HTMLElement {
  const isOn = row.filter !== "" && store.state.filter === row.filter;
  const inside = [
    nameOf(row.name, { class: "name" }),
    bar(row.share),
    make("span", { class: "time" }, timeText(row.ns)),
    make("span", { class: "share" }, percentText(row.share)),
  ];
  const title = [row.count ? `${numberText(row.count, 1)}×` : "", row.limited_by].filter(Boolean).join(", ");
  if (!row.filter) return make("li", { class: "row", title }, inside);
  const press = () => store.set({ filter: isOn ? "" : row.filter });
  return make("li", {}, button(inside, press, { class: "row", title, "aria-pressed": String(isOn) }));
}
