// Fixes and findings beside the timeline: fixes as the terminal orders them, each once, then findings by what they save. One that is
// selected is marked here, and its events and gaps on the timeline.

import "./insights.css";
import { button, type Child, make, nameOf } from "../../base/dom";
import { numberText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { cardText, pointed } from "../../core/places";
import { savingText } from "../../core/savings";
import type { FixCard, Place } from "../../data/documents";
import { times } from "../page/predicted";

const WITH_KEYS = 3; // fixes that the keys 1, 2 and 3 go to

export function insights(context: Context): HTMLElement | null {
  if (context.traces.length > 1) return null; // what changed stands there
  const [trace] = context.traces;
  const cards = trace.entry.answers.cards.map((card, at) => cardNode(context, trace, card, at));
  const found = findingRows(context, trace);
  if (!cards.length && !found.length) return null;
  const list = make(
    "div",
    { class: "list", tabindex: 0, role: "group", "aria-label": "Fixes and findings" },
    make("h3", {}, `Fixes (${numberText(cards.length)})`),
    cards.length ? cards : make("p", { class: "faint" }, nameOf(trace.entry.answers.first)),
    found.length ? make("h3", {}, `Findings (${numberText(found.length)})`) : null,
    found,
  );
  return make("aside", { class: "insights", "aria-label": "Fixes and findings" }, list);
}

// Of several traces the first fix of each, in a row.
export function firstFixes(context: Context): HTMLElement | null {
  const cards = context.traces.flatMap((trace) => trace.entry.answers.cards.slice(0, 1).map((card) => ({ trace, card })));
  if (context.traces.length < 2 || !cards.length) return null;
  const nodes = cards.map(({ trace, card }, at) => cardNode(context, trace, card, at));
  return make("div", { class: "cards-row" }, nodes);
}

function cardNode(context: Context, trace: Shown, card: FixCard, at: number): HTMLElement {
  const place = trace.entry.fix_places.find(({ key }) => key === card.key);
  const saves = cardText(trace, card);
  const label = card.label ? make("span", { class: "label" }, card.label.toLowerCase()) : null;
  const where = context.traces.length > 1 ? nameOf(trace.facts.title, { class: "faint" }) : null;
  const more = card.needs ? `${card.why}; without ${card.needs}` : card.why;
  const inside = [
    make("span", { class: "what" }, label, nameOf(card.order), where ? [" · ", where] : null),
    times(trace, card),
    make("span", { class: "why faint" }, nameOf(more)),
  ];
  const node = chooser(context, trace, place, inside, `${card.order}. ${saves}.`, { class: "card", title: more });
  if (at < WITH_KEYS) context.keys.add(String(at + 1), `fix ${at + 1}`, () => node.click());
  return node;
}

function findingRows(context: Context, trace: Shown): HTMLElement[] {
  const { look, places } = trace.entry;
  return look.findings.flatMap((finding, at) => {
    if (finding.state !== "found") return [];
    const saving = savingText(finding);
    const inside = [make("span", { class: "what" }, nameOf(finding.title)), make("span", { class: "saves" }, saving)];
    return [chooser(context, trace, places[at], inside, `${finding.title}. ${saving}.`, { class: "insight", title: finding.title })];
  });
}

// A button that selects a fix or a finding and shows whether it is selected.
function chooser(
  { store, say }: Context,
  trace: Shown,
  place: Place | undefined,
  inside: Child,
  said: string,
  attributes: Record<string, string>,
): HTMLElement {
  const go = () => {
    if (!place) return;
    store.set(pointed(trace, place));
    say(said);
  };
  const node = button(inside, go, { ...attributes, "aria-pressed": "false", "data-finding": place?.key ?? "" });
  const show = () => {
    const { selection } = store.state;
    const isSelected = selection?.kind === "finding" && selection.trace === trace.index && selection.rule === place?.key;
    node.setAttribute("aria-pressed", String(isSelected));
  };
  store.on(["selection"], show);
  show();
  return node;
}
