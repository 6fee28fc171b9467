// Sections as the terminal shows them: a head, paragraphs, bullets and tables.

import { make, nameOf, replace, sentence } from "../../base/dom";
import { numberText } from "../../base/units";
import type { Column } from "../../core/rows";
import type {
  CheckDocument,
  HeatCell,
  HeatPlane,
  LadderDocument,
  MarkedClaim,
  MarkedGuess,
  MatmulMark,
  MatmulsOnMap,
  Section,
  SetupRow,
} from "../../data/documents";
import { Grid, type GridColumn } from "./grid";

export function headNode(head: Section): HTMLElement {
  return make(
    "section",
    { "aria-label": "Summary" },
    make("h2", {}, nameOf(head.title)),
    storyNode(head),
    head.bullets.map(([text]) => make("p", { class: "banner" }, nameOf(text))),
  );
}

function storyNode({ labelled }: Section): HTMLElement {
  const line = ([label, text]: [string, string]) => [make("dt", {}, label), make("dd", {}, sentence(text))];
  return make("dl", { class: "story" }, labelled.map(line));
}

// The tables of a page, one below the other.
export function tablesNode(sections: Section[]): HTMLElement {
  return make(
    "div",
    { class: "tables" },
    sections.map((each) => sectionNode(each)),
  );
}

// `bars` draws a column of its table, by title.
export function sectionNode(section: Section, bars: Record<string, Partial<GridColumn<string[]>>> = {}): HTMLElement {
  return make(
    "section",
    {},
    section.title ? make("h3", {}, nameOf(section.title)) : null,
    section.paragraphs.map((text) => make("p", {}, sentence(text))),
    section.labelled.length ? storyNode(section) : null,
    section.bullets.length
      ? make(
          "ul",
          {},
          section.bullets.map(([line, text]) => make("li", {}, nameOf(line), text ? [make("br"), nameOf(text)] : null)),
        )
      : null,
    section.rows.length ? tableNode(section, bars) : null,
    section.after ? make("p", { class: "faint" }, sentence(section.after)) : null,
  );
}

function tableNode({ title, head, rows, left }: Section, bars: Record<string, Partial<GridColumn<string[]>>>): HTMLElement {
  const columns = head.map((text, at): GridColumn<string[]> => {
    const isFirst = at === Math.min(...left);
    return { title: text, kind: isFirst ? "name" : left.includes(at) ? "words" : "number", value: (row) => row[at] ?? "", ...bars[text] };
  });
  return new Grid(columns, rows, { caption: title, wrap: true, ordered: true, bare: true }).node;
}

// Predictions and whether they came true; and a climb of the ladder, claim by claim.

const VERDICT_SIGN: Record<string, string> = { hit: "✓", miss: "✗", unknown: "?", error: "!" };
// the last two are of documents of schema 1
const OUTCOME_SIGN: Record<string, string> = {
  holds: "✓",
  "does not hold": "✗",
  "holds on the A100": "≠",
  imprecise: "~",
  inconclusive: "?",
  "another card": "≠",
  "not said": "–",
};

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
  const listed = (counts: Record<string, number>) =>
    Object.entries(counts)
      .filter(([, count]) => count)
      .map(([outcome, count]) => `${outcome} ${count}`)
      .join(", ");
  const others = Object.entries({ "the commentaries": climb.commentaries ?? {}, "found here": climb.found ?? {} });
  const apart = others.filter(([, counts]) => listed(counts)).map(([who, counts]) => `; ${who}: ${listed(counts)}`);
  replace(
    node,
    make("h2", {}, "Ladder"),
    make("p", { class: "faint" }, nameOf(`${climb.source ?? ""}: ${climb.device ?? "no device named"}, torch ${climb.torch ?? "unknown"}`)),
    make("p", {}, nameOf(`${numberText(climb.claims.length)} claims: ${listed(outcomes)}${apart.join("")}.`)),
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

// The plane of M and N: how near to its roof a matmul of each octave comes; matmuls of a trace are framed.

export function showMatmuls(node: HTMLElement, found: MatmulsOnMap | null): void {
  node.hidden = !found;
  if (!found) return;
  const told = { title: "", paragraphs: [], labelled: [], bullets: [], after: "", code: "", left: [0, 2, 4] };
  replace(
    node,
    make("h2", {}, nameOf(`Matmuls on the map of the ${found.device}`)),
    make(
      "p",
      { class: "faint" },
      "Framed cells hold matmuls of this trace. Times of the map are those of the kernel alone, with L2 empty before.",
    ),
    planeNode(found.plane, found.marks),
    sectionNode({ ...told, head: found.head, rows: found.rows }),
  );
}

export function planeNode(plane: HeatPlane, marks: MatmulMark[] = []): HTMLElement {
  const columns = sorted(plane.cells.map((cell) => cell.n));
  const cells = new Map(plane.cells.map((cell) => [`${cell.m} ${cell.n}`, cell]));
  const here = new Map(marks.map((mark) => [`${octave(mark.m)} ${octave(mark.n)}`, mark.text]));
  const heads = (names: string[]) => names.map((name) => make("th", { scope: "col" }, name));
  const row = (m: number) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, `${m}+`),
      columns.map((n) => cellNode(cells.get(`${m} ${n}`), here.get(`${m} ${n}`))),
    );
  const kind = `${plane.dtype} ${plane.layout}, epilogue ${plane.epilogue}, all K together: percent of the roof, medians of octaves`;
  const table = make(
    "table",
    { class: "plane" },
    make("caption", {}, kind),
    make("thead", {}, make("tr", {}, heads(["M \\ N", ...columns.map((n) => `${n}+`)]))),
    make("tbody", {}, sorted(plane.cells.map((cell) => cell.m)).map(row)),
  );
  return make("div", { class: "scroll" }, table);
}

function cellNode(cell?: HeatCell, mark?: string): HTMLElement {
  if (!cell) return make("td", mark ? { class: "marked", title: mark } : {}, mark ? "●" : "");
  const told = `${cell.matmuls} matmuls, ${cell.tflops.toFixed(0)} TFLOP/s, tile ${cell.tile || "unknown"}`;
  const named = { class: mark ? "marked" : null, title: mark ? `${mark}; ${told}` : told };
  const node = make("td", named, nameOf(cell.roof_percent.toFixed(0)));
  const share = Math.max(0, Math.min(100, cell.roof_percent));
  node.style.setProperty("background", `color-mix(in srgb, var(--gemm) ${share.toFixed(0)}%, var(--back))`);
  return node;
}

function octave(size: number): number {
  return 2 ** Math.floor(Math.log2(size));
}

function sorted(values: number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}
