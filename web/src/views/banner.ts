// What every page made from a damaged trace must show, and what was read of each trace.

import { make, nameOf, replace } from "../base/dom";
import { numberText } from "../base/units";
import type { NoteEntry } from "../data/documents";
import type { TraceFacts } from "../data/events";

const GRAVE = ["data_loss", "error"];

export function showBanner(node: HTMLElement, traces: TraceFacts[]): void {
  const notes = traces.flatMap((facts) =>
    (facts.look?.ledger.notes ?? [])
      .filter((note) => GRAVE.includes(note.severity))
      .map((note) => make("li", {}, nameOf(`${facts.title}: ${noteText(note)}`))),
  );
  node.hidden = !notes.length;
  replace(node, make("strong", {}, "Data was lost or is unreliable"), make("ul", {}, notes));
}

export function showLedger(node: HTMLElement, traces: TraceFacts[]): void {
  replace(
    node,
    make("h2", {}, "What was read"),
    traces.map((facts) => ledger(facts)),
  );
}

function ledger({ title, look }: TraceFacts): HTMLElement | null {
  if (!look) return null;
  const { seen, kept, repaired, skipped, notes } = look.ledger;
  const parts = `${numberText(kept)} kept + ${numberText(repaired)} repaired + ${numberText(skipped)} skipped`;
  return make(
    "section",
    {},
    make("p", {}, nameOf(`${title}: ${numberText(seen)} records = ${parts}.`)),
    make(
      "ul",
      {},
      notes.map((note) => make("li", {}, nameOf(`${note.severity}: ${noteText(note)}`))),
    ),
  );
}

function noteText(note: NoteEntry): string {
  return `${note.code} (${numberText(note.count)}): ${note.text}`;
}
