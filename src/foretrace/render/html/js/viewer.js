// The viewer of `foretrace serve`: pick a trace, or two, and look.

import { Colours } from "./colours.js";
import { button, byId, make, nameOf, replace } from "./dom.js";
import { TraceFacts } from "./events.js";
import { showBanner, showComparison, showLedger } from "./sections.js";
import { ServedPane } from "./served.js";
import { Table } from "./table.js";
import { followTheme } from "./theme.js";
import { addTrace, follow, perfettoButton } from "./tracepage.js";
import { bytesText, numberText } from "./units.js";

const POLL_MS = 300;
const TABLES = ["kernels", "ops", "events", "copies", "steps", "regions"];
const viewer = { panes: [], colours: null, traces: [] };

async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  const isJson = answer.headers.get("content-type") === "application/json";
  const data = isJson ? await answer.json() : {};
  if (answer.status >= 400) throw new Error(data.error ?? `the server answered ${answer.status}`);
  return data;
}

// Poll until a trace is open, and show the progress.
async function askUntilReady(path, say) {
  for (;;) {
    const data = await ask(path);
    if (data.state !== "opening") return data;
    say(data.seconds === undefined ? "comparing …" : `opening ${bytesText(data.bytes)}: ${data.seconds} s so far …`);
    await new Promise((later) => setTimeout(later, POLL_MS));
  }
}

function startViewer() {
  const listed = JSON.parse(byId("data").textContent);
  viewer.traces = listed.traces;
  viewer.colours = new Colours();
  followTheme(viewer.colours, () => viewer.panes.forEach((pane) => pane.timeline.redraw()));
  const choose = (label, first) => make("select", { "aria-label": label },
    first ? make("option", { value: -1 }, first) : null, viewer.traces.map((each) => make("option", { value: each.number }, each.label)));
  const one = choose("Trace"), two = choose("Compare with", "nothing");
  const said = make("span", { class: "faint", role: "status" });
  const open = button("open", () => show(Number(one.value), Number(two.value), said));
  replace(byId("catalog"), make("h2", {}, `${numberText(viewer.traces.length)} traces`),
    make("p", { class: "controls" }, one, "compare with", two, open, said), leftOut(listed.left_out));
  byId("catalog").hidden = false;
  window.viewer = viewer; // for the curious, and for the tests
  show(Number(one.value), -1, said);
}

// Files named like traces that cannot be read.
function leftOut(files) {
  return files.length ? make("details", {}, make("summary", {}, `${numberText(files.length)} files named like traces cannot be read`),
    make("ul", {}, files.map((each) => make("li", {}, nameOf(each.label), ": ", nameOf(each.why))))) : null;
}

async function show(first, second, said) {
  const numbers = second >= 0 ? [first, second] : [first];
  const say = (text) => replace(said, text);
  delete document.documentElement.dataset.ready;
  try {
    const answers = [];
    for (const number of numbers) answers.push(await askUntilReady(`trace/${number}`, say));
    const compared = second >= 0 ? (await askUntilReady(`compare/${first}/${second}`, say)).comparison : null;
    for (const id of ["views", "traces"]) replace(byId(id));
    viewer.panes = [];
    answers.forEach((answer, at) => addServed(answer, numbers, at));
    const all = viewer.panes.map((pane) => pane.facts);
    showBanner(byId("banner"), all);
    showLedger(byId("ledger"), all);
    showComparison(byId("comparison"), compared);
    say("");
    document.documentElement.dataset.ready = "yes";
  } catch (problem) {
    say(problem.message);
  }
}

function addServed({ entry, config, marks }, numbers, at) {
  const number = numbers[at], facts = new TraceFacts(entry, config);
  facts.marks = marks;
  const against = numbers.length > 1 ? { other: numbers[1 - at], side: "ab"[at] } : null;
  const onView = (from, to) => follow(viewer.panes, at, from, to);
  const pane = new ServedPane(facts, viewer.colours, (path) => ask(`trace/${number}/${path}`), onView, against);
  viewer.panes.push(pane);
  addTrace(entry, pane, actions(number, facts.title), sqlBox(number));
}

// The report, the tables and the way to Perfetto.
function actions(number, title) {
  const link = (text, path) => make("a", { href: `trace/${number}/${path}`, target: "_blank", rel: "noopener" }, text);
  const content = () => fetch(`trace/${number}/file`).then((answer) => answer.arrayBuffer());
  const [perfetto, said] = perfettoButton(title, title, content);
  return make("p", { class: "controls" }, perfetto, link("report", "report"), "tables:",
    TABLES.map((name) => [link(name, `table/${name}.csv`), " "]), said);
}

function sqlBox(number) {
  const query = make("textarea", { "aria-label": "SQL", spellcheck: "false" });
  query.value = "select short, role, count(*) as launches, sum(dur_ns) as ns from kernels group by short, role order by ns desc";
  const result = make("div", { class: "sql" });
  let running = new AbortController();
  const run = button("run", async () => {
    running.abort(); // the server ends a query that nobody waits for
    const { signal } = running = new AbortController();
    try {
      const found = await ask(`trace/${number}/sql?q=${encodeURIComponent(query.value)}`, signal);
      replace(result, sqlTable(found).node);
    } catch (problem) {
      if (!signal.aborted) replace(result, make("p", { class: "banner" }, nameOf(problem.message)));
    }
  });
  return make("section", {}, make("h3", {}, "SQL"), query, make("p", {}, run), result);
}

function sqlTable(found) {
  const columns = found.columns.map((title, at) => {
    const isText = found.rows.some((row) => typeof row[at] === "string");
    const text = (row) => row[at] === null ? "–" : String(row[at]);
    return { title, name: isText, value: (row) => row[at], text };
  });
  const shown = found.rows.length < found.count ? `, the first ${numberText(found.rows.length)} shown` : "";
  return new Table(columns, found.rows, { caption: `${numberText(found.count)} rows${shown}`, sortBy: -1 });
}

startViewer();
