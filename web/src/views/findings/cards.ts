// What the trace is, the verdict, and the three largest findings as cards. A card leads to its place on the timeline.

import "./cards.css";
import { button, make, nameOf } from "../../base/dom";
import type { Context, Shown } from "../../core/context";
import { pointed } from "../../core/places";
import { savingText } from "../../core/savings";
import type { FindingEntry, Line, Place } from "../../data/documents";

const MOST_CARDS = 3;

interface Card {
  trace: Shown;
  finding: FindingEntry;
  place: Place;
}

export function cards(context: Context): HTMLElement {
  const found = largest(context.traces).map((card, at) => cardNode(context, card, at));
  const row = found.length ? make("div", { class: "row" }, found) : null;
  return make("section", { class: "cards", "aria-label": "Summary" }, verdicts(context), row);
}

// Of several traces those that save most, whichever trace they are of.
function largest(traces: readonly Shown[]): Card[] {
  const all = traces.flatMap((trace) =>
    trace.entry.look.findings.map((finding, at) => ({ trace, finding, place: trace.entry.places[at] })),
  );
  const saving = (card: Card) => card.finding.at_most_ns ?? -1;
  return all
    .filter(({ finding }) => finding.state === "found")
    .sort((a, b) => saving(b) - saving(a))
    .slice(0, MOST_CARDS);
}

// One trace: its name, what recorded it, and the verdict. Of several each has one line: what changed since the first one.
function verdicts({ traces, compared }: Context): HTMLElement[] {
  const [first] = traces;
  if (traces.length === 1) return [named(first, first.entry.headline), verdict(first.entry.story[0])];
  return traces.map((trace) => {
    const pair = compared?.pairs.find(({ a, b }) => a === 0 && b === trace.index);
    const found = pair?.document.verdict;
    return named(trace, found ? `${found.answer.toUpperCase()}: ${found.text}` : trace.entry.headline, !found);
  });
}

function verdict(line: Line | undefined): HTMLElement {
  const text = line ? `${line.label}: ${line.text}` : "";
  return make("p", { class: "verdict", title: text }, nameOf(text));
}

function named({ facts }: Shown, about: string, faint = true): HTMLElement {
  return make("h2", { title: about }, nameOf(facts.title), " · ", make("span", { class: faint ? "faint" : "verdict" }, nameOf(about)));
}

function cardNode(context: Context, { trace, finding, place }: Card, at: number): HTMLElement {
  const { store, keys, traces, say } = context;
  const per = trace.entry.look.steps.length ? " per step" : " in the recording";
  const saving = savingText(finding);
  const saves = saving ? `saves ${saving}${per}` : "no saving known";
  const go = () => {
    store.set(pointed(trace, place));
    say(`${finding.title}. ${saves}.`);
  };
  const where = traces.length > 1 ? nameOf(` · ${trace.facts.title}`, { class: "where" }) : null;
  const node = button(
    [make("span", { class: "saves" }, make("strong", {}, saves), where), make("span", { class: "what" }, nameOf(finding.title))],
    go,
    {
      class: "card",
      title: finding.title,
      "aria-pressed": "false",
      "data-finding": place.key,
    },
  );
  keys.add(String(at + 1), `the finding on card ${at + 1}`, go);
  const show = () => {
    const { selection } = store.state;
    const isSelected = selection?.kind === "finding" && selection.trace === trace.index && selection.rule === place.key;
    node.setAttribute("aria-pressed", String(isSelected));
  };
  store.on(["selection"], show);
  show();
  return node;
}
