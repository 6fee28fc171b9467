// Predictions and whether they came true; and a climb of the ladder, claim by claim.

import { make, nameOf, replace } from "../base/dom";
import { numberText } from "../base/units";
import type { Column } from "../core/rows";
import type { CheckDocument, LadderDocument, MarkedClaim, MarkedGuess, SetupRow } from "../data/documents";
import { Grid } from "./grid";

const VERDICT_SIGN: Record<string, string> = { hit: "✓", miss: "✗", unknown: "?", error: "!" };
const OUTCOME_SIGN: Record<string, string> = { holds: "✓", "does not hold": "✗", "another card": "≠", "not said": "–", inconclusive: "?" };

export function showGuesses(node: HTMLElement, guesses: CheckDocument | null): void {
  node.hidden = !guesses;
  if (!guesses) return;
  const columns: Column<MarkedGuess>[] = [
    { ...words("verdict", (row) => row.verdict), text: (row) => `${VERDICT_SIGN[row.verdict] ?? ""} ${row.verdict}` },
    { ...words("guess", (row) => row.text), kind: "name" },
    words("measured", (row) => row.measured),
    words("expected", (row) => row.expected),
    words("why", (row) => row.why),
  ];
  const score = `${guesses.hits} hit, ${guesses.misses} missed, ${guesses.unknown} unknown (not in the trace).`;
  replace(node, make("h2", {}, "Guesses"), new Grid(columns, guesses.guesses, { caption: score, wrap: true }).node);
}

// How many claims have each outcome, what each setup changed and left, and every claim with its sentence.
export function showLadder(node: HTMLElement, climb: LadderDocument | null): void {
  node.hidden = !climb;
  if (!climb) return;
  const { hit, miss, unknown } = climb.counts; // a document of an earlier version has no outcomes
  const outcomes = climb.outcomes ?? { holds: hit ?? 0, "does not hold": miss ?? 0, inconclusive: unknown ?? 0 };
  const found = Object.entries(outcomes).map(([outcome, count]) => `${outcome} ${count}`);
  replace(
    node,
    make("h2", {}, "Ladder"),
    make("p", { class: "faint" }, nameOf(`${climb.source ?? ""}: ${climb.device ?? "no device named"}, torch ${climb.torch ?? "unknown"}`)),
    make("p", {}, nameOf(`${numberText(climb.claims.length)} claims: ${found.join(", ")}.`)),
    setupGrid(climb.article).node,
    make("details", {}, make("summary", {}, "Every claim"), claimGrid(climb.claims).node),
  );
}

function setupGrid(article: SetupRow[]): Grid<SetupRow> {
  const sentences = (list: unknown) => (Array.isArray(list) ? list.join(" ") : "");
  const columns: Column<SetupRow>[] = [
    { ...words("setup", (row) => row.setup), kind: "name" },
    words("what changed", (row) => sentences(row.changed)),
    words("what stayed the same", (row) => sentences(row.same)),
  ];
  return new Grid(columns, article, { caption: "What each setup changed", wrap: true });
}

function claimGrid(claims: MarkedClaim[]): Grid<MarkedClaim> {
  const of = (key: keyof MarkedClaim, title: string = key) => words<MarkedClaim>(title, (row) => String(row[key] ?? ""));
  const outcome = (row: MarkedClaim) => String(row.outcome ?? row.verdict ?? "");
  const said = (row: MarkedClaim) => (row.sentence ? `"${row.sentence}" (${row.source})` : String(row.source ?? ""));
  const columns: Column<MarkedClaim>[] = [
    of("number", "claim"),
    { ...words("outcome", outcome), text: (row) => `${OUTCOME_SIGN[outcome(row)] ?? ""} ${outcome(row)}` },
    { ...words("sentence", said), kind: "name" },
    of("setup"),
    of("guess", "prediction"),
    of("measured"),
    of("why"),
    { ...of("program"), optional: true },
    { ...of("correction"), optional: true },
  ];
  return new Grid(columns, claims, { caption: `${numberText(claims.length)} claims`, wrap: true });
}

function words<Row>(title: string, value: (row: Row) => string): Column<Row> {
  return { title, kind: "words", value };
}
