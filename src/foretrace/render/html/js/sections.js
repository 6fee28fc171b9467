// The written parts of the page: banner, summary, findings, comparison, guesses, ladder, and what was read.

import { button, make, nameOf, replace } from "./dom.js";
import { numberText, percentText, timeText } from "./units.js";
import { Table } from "./table.js";

const GRAVE = ["data_loss", "error"];
const STATE_SIGN = { found: "●", clear: "○", skipped: "–", crashed: "✕" };
const VERDICT_SIGN = { hit: "✓", miss: "✗", unknown: "?", error: "!" };
const OUTCOME_SIGN = { "holds": "✓", "does not hold": "✗", "another card": "≠", "not said": "–", "inconclusive": "?" };
const CHANGE_SIGN = { same: "=", changed: "≠", added: "+", removed: "−" };
const MOST_EVENTS = 8;

// What every page made from a damaged trace must show.
export function showBanner(node, traces) {
  const notes = traces.flatMap((facts) => facts.look.ledger.notes
    .filter((note) => GRAVE.includes(note.severity))
    .map((note) => make("li", {}, `${facts.title}: ${noteText(note)}`)));
  node.hidden = !notes.length;
  replace(node, make("strong", {}, "Data was lost or is unreliable"), make("ul", {}, notes));
}

function noteText(note) {
  return `${note.code} (${numberText(note.count)}): ${note.text}`;
}

export function showSummary(node, entry) {
  replace(node, make("h2", {}, nameOf(entry.title)), make("p", { class: "faint" }, nameOf(entry.headline)),
    make("ul", { class: "story" }, entry.story.map((sentence) => make("li", {}, nameOf(sentence)))), groupTable(entry.look.groups));
}

// GPU time by what the model's author would call it.
function groupTable(groups) {
  if (!groups.length) return null;
  const cells = (row) => [row.name, timeText(row.time), percentText(row.share), numberText(row.count), row.limited_by];
  return wordTable(["where GPU time goes", "time", "share", "n", "limited by"], groups.map(cells));
}

export function showFindings(node, { findings, steps }, select) {
  const order = ["found", "crashed", "skipped", "clear"];
  const one = (finding) => findingNode(finding, steps.length ? " per step" : "", select);
  const sorted = [...findings].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || (b.at_most_ns ?? 0) - (a.at_most_ns ?? 0));
  const shown = sorted.filter((finding) => finding.state === "found" || finding.state === "crashed");
  const rest = sorted.filter((finding) => !shown.includes(finding));
  const quiet = rest.length ? make("details", {}, make("summary", {}, `${rest.length} rules found nothing or lacked data`),
    rest.map(one)) : null;
  replace(node, ...shown.map(one), quiet,
    sorted.length ? null : make("p", { class: "faint" }, "No rule ran on this trace."));
}

function findingNode(finding, per, select) {
  const worth = finding.at_most_ns === null ? "" : ` · saves at most ${timeText(finding.at_most_ns)}${per}`;
  const link = (event, at) => button(`event ${at + 1}`, () => select(event), { class: "link", "data-event": event });
  const events = finding.events.slice(0, MOST_EVENTS);
  return make("article", { class: `finding ${finding.state}` },
    make("h3", {}, `${STATE_SIGN[finding.state]} `, nameOf(finding.title)),
    make("p", { class: "faint" }, `${finding.state} · ${finding.rule}${worth}`),
    finding.detail ? make("p", {}, nameOf(finding.detail)) : null,
    events.length ? make("p", {}, "Proof: ", events.map((event, at) => [link(event, at), " "]),
      finding.events.length > MOST_EVENTS ? `of ${numberText(finding.events.length)}` : "") : null);
}

export function showComparison(node, found) {
  node.hidden = !found;
  if (!found) return;
  const sentences = (title, list) => list.length ? [make("h3", {}, title), make("ul", {}, list.map((text) => make("li", {}, nameOf(text))))] : [];
  const verdict = make("p", {}, make("strong", {}, `${found.verdict.answer.toUpperCase()}: `), nameOf(found.verdict.text));
  replace(node, make("h2", {}, "What changed"), verdict, ...sentences("Changed", found.changed), ...sentences("Unchanged", found.unchanged),
    measureTable(found), worthNode(found.worth), fusionList(found.fusions), changeTable(found.kernels).node);
}

function measureTable(found) {
  const rows = [["GPU busy", found.gpu_ns], ["host", found.cpu_ns], ["wall", found.wall_ns]];
  const ratio = (value) => value === null ? "–" : `${value.toFixed(2)}x`;
  return make("div", { class: "scroll" }, make("table", {}, make("caption", {}, "Median per repeat"),
    make("thead", {}, make("tr", {}, ["", "A", "B", "B / A", "noise"].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, rows.map(([label, value]) => make("tr", {}, make("td", { class: "left" }, label), make("td", {}, timeText(value.a)),
      make("td", {}, timeText(value.b)), make("td", {}, ratio(value.ratio)), make("td", {}, percentText(value.noise)))))));
}

function worthNode(worth) {
  return worth?.text ? make("p", {}, nameOf(worth.text)) : null;
}

function fusionList(fusions) {
  if (!fusions.length) return null;
  const item = (fusion) => make("li", {}, nameOf(fusion.kernel), " takes the place of ", nameOf(fusion.replaces.join(", ")),
    fusion.ns_saved === null ? "" : ` and saves ${timeText(fusion.ns_saved)}`);
  return make("section", {}, make("h3", {}, "Fused"), make("ul", {}, fusions.map(item)));
}

function changeTable(kernels) {
  const rows = Object.keys(CHANGE_SIGN).flatMap((state) => kernels[state].map((row) => ({ state, ...row })));
  return new Table([
    { title: "kernel", name: true, value: (row) => row.short, text: (row) => row.short || row.name, title_of: (row) => row.name },
    { title: "state", name: true, value: (row) => row.state, text: (row) => `${CHANGE_SIGN[row.state]} ${row.state}` },
    { title: "op", name: true, value: (row) => row.op ?? "", text: (row) => row.op ?? "–" },
    { title: "A", value: (row) => row.a, text: (row) => numberText(row.a) },
    { title: "B", value: (row) => row.b, text: (row) => numberText(row.b) },
    { title: "median A", value: (row) => row.median_ns.a, text: (row) => timeText(row.median_ns.a) },
    { title: "median B", value: (row) => row.median_ns.b, text: (row) => timeText(row.median_ns.b) },
    { title: "why", name: true, value: (row) => (row.why ?? []).join(), text: (row) => (row.why ?? []).join("; ") },
  ], rows, { caption: "Kernels of a typical repeat, side by side", sortBy: 1, down: false });
}

export function showGuesses(node, guesses) {
  node.hidden = !guesses;
  if (!guesses) return;
  const row = (guess) => [`${VERDICT_SIGN[guess.verdict]} ${guess.verdict}`, guess.text, guess.measured, guess.expected, guess.why];
  replace(node, make("h2", {}, "Guesses"),
    make("p", {}, `${guesses.hits} hit, ${guesses.misses} missed, ${guesses.unknown} unknown (not in the trace).`),
    wordTable(["verdict", "guess", "measured", "expected", "why"], guesses.guesses.map(row)));
}

// A climb: how many claims have each outcome, what each setup changed and left, and every claim with its sentence.
export function showLadder(node, climb) {
  node.hidden = !climb;
  if (!climb) return;
  const { hit, miss, unknown } = climb.counts; // a document of an earlier version has no outcomes
  const outcomes = climb.outcomes ?? { "holds": hit ?? 0, "does not hold": miss ?? 0, "inconclusive": unknown ?? 0 };
  const found = Object.entries(outcomes).map(([outcome, count]) => `${outcome} ${count}`).join(", ");
  replace(node, make("h2", {}, "Ladder"),
    make("p", { class: "faint" }, nameOf(`${climb.source ?? ""}: ${climb.device ?? "no device named"}, torch ${climb.torch ?? "unknown"}`)),
    make("p", {}, nameOf(`${numberText(climb.claims.length)} claims: ${found}.`)),
    wordTable(["setup", "what changed", "what stayed the same"], climb.article.map((row) => [row.setup, sentencesOf(row.changed), sentencesOf(row.same)])),
    make("details", {}, make("summary", {}, "Every claim"), claimTable(climb.claims).node));
}

function sentencesOf(list) {
  return Array.isArray(list) ? list.join(" ") : "";
}

function wordTable(heads, rows) {
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, heads.map((text) => make("th", { scope: "col", class: "left" }, text)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((text) => make("td", { class: "left" }, nameOf(String(text || "–")))))))));
}

function claimTable(claims) {
  const words = (title, of) => ({ title, name: true, value: of, text: (row) => of(row) || "–" });
  const of = (key) => (row) => String(row[key] ?? "");
  const outcome = (row) => String(row.outcome ?? row.verdict ?? "");
  const said = (row) => (row.sentence ? `"${row.sentence}" (${row.source})` : String(row.source ?? ""));
  return new Table([
    words("claim", of("number")), words("sentence", said), words("setup", of("setup")), words("program", of("program")),
    words("prediction", of("guess")), { ...words("outcome", outcome), text: (row) => `${OUTCOME_SIGN[outcome(row)] ?? ""} ${outcome(row)}` },
    words("measured", of("measured")), words("why", of("why")), words("correction", of("correction")),
  ], claims, { caption: `${numberText(claims.length)} claims`, sortBy: -1 });
}

export function showLedger(node, traces) {
  replace(node, make("h2", {}, "What was read"), ...traces.map((facts) => {
    const { seen, kept, repaired, skipped, notes } = facts.look.ledger;
    return make("section", {}, make("p", {}, `${facts.title}: ${numberText(seen)} records = ${numberText(kept)} kept + ` +
      `${numberText(repaired)} repaired + ${numberText(skipped)} skipped.`),
      make("ul", {}, notes.map((note) => make("li", {}, `${note.severity}: ${noteText(note)}`))));
  }));
}
