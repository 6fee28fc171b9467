// The first screen of `look` in sentences, the step before and after each fix, then all findings by what they save; small ones are
// folded. A finding leads to its place on the timeline, and so does each of its gaps and events.

import "./findings.css";
import { button, type Child, make, nameOf } from "../../base/dom";
import { numberText, timeText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { framed, pointed } from "../../core/places";
import { savingText } from "../../core/savings";
import type { Finding, Place } from "../../data/documents";
import { shareBar } from "../page/bars";
import { predictedBar } from "../page/predicted";
import { sectionNode } from "../page/written";

const MOST_LISTED = 8;
const SIGN: Record<string, string> = { found: "●", clear: "○", skipped: "–", crashed: "✕" };

interface Span {
  from: number;
  to: number;
  name: string;
}

interface One {
  finding: Finding;
  place: Place;
}

export function findings(context: Context): HTMLElement | null {
  const count = context.traces.flatMap((trace) => trace.entry.look.findings).filter((each) => each.state === "found").length;
  const node = make(
    "section",
    { class: "findings", "data-count": count },
    context.traces.map((trace) => ofTrace(context, trace)),
  );
  const show = () => follow(context, node);
  context.store.on(["selection"], show);
  show();
  return node;
}

function ofTrace(context: Context, trace: Shown): HTMLElement {
  const { look, places, worth_ns } = trace.entry;
  const all = look.findings.map((finding, at) => ({ finding, place: places[at] }));
  const { bases } = trace.entry.answers;
  const whole = (look.steps.length ? bases[0] : bases.at(-1))?.composition.wall_ns || 1; // what savings are of
  const list = (ones: One[]) => ones.map((one) => findingNode(context, trace, one, whole));
  const of = (...states: string[]) => all.filter(({ finding }) => states.includes(finding.state));
  const saving = ({ finding }: One) => finding.at_most_ns;
  const found = of("found");
  const small = found.filter((one) => saving(one) !== null && (saving(one) ?? 0) < worth_ns);
  const untold = found.filter((one) => saving(one) === null);
  const large = found.filter((one) => !small.includes(one) && !untold.includes(one));
  const title = context.traces.length > 1 ? make("h3", {}, nameOf(trace.facts.title)) : null;
  return make(
    "section",
    { "aria-label": `Findings in ${trace.facts.title}` },
    title,
    story(trace),
    fixesNode(trace),
    list(large),
    list(of("crashed")),
    folded(`${numberText(untold.length)} without a known saving`, list(untold), !large.length),
    folded(`${numberText(small.length)} below 1% of the time`, list(small)),
    folded(`${rules(of("clear").length)} found nothing`, list(of("clear"))),
    folded(`${rules(of("skipped").length)} lacked data`, list(of("skipped"))),
    all.length ? null : make("p", { class: "faint" }, "No rule ran on this trace."),
  );
}

// The step before and after each fix, with a bar and its interval.
function fixesNode({ entry: { fixes, look } }: Shown): HTMLElement | null {
  if (!fixes) return null;
  const parts = (row: string[]) => predictedBar(look.step?.ns ?? 0, look.fixes, fixes.rows.indexOf(row));
  return sectionNode(fixes, { interval: { kind: "share", most: 290, parts } });
}

function story({ entry }: Shown): HTMLElement {
  const line = ({ label, text }: { label: string; text: string }) => [
    make("dt", {}, label),
    make("dd", {}, nameOf(text.replace(" (--findings)", ""))),
  ]; // an option of the terminal
  const notes = entry.notes ? make("p", { class: "faint" }, nameOf(entry.notes)) : null;
  return make("div", {}, make("dl", { class: "story" }, entry.story.map(line)), notes);
}

function rules(count: number): string {
  return `${numberText(count)} ${count === 1 ? "rule" : "rules"}`;
}

function folded(title: string, nodes: HTMLElement[], open = false): HTMLElement | null {
  return nodes.length ? make("details", { open: open ? "" : null }, make("summary", {}, title), nodes) : null;
}

function findingNode(context: Context, trace: Shown, { finding, place }: One, whole: number): HTMLElement {
  const { at_most_ns: saves, state, rule, title, detail, fix } = finding;
  const per = trace.entry.look.steps.length ? " per step" : " in the recording";
  const worth = saves === null ? [] : [shareBar(saves / whole), ` ${savingText(finding)}${per} · `];
  const head = state === "found" ? button(nameOf(title), () => context.store.set(pointed(trace, place)), { class: "link" }) : nameOf(title);
  return make(
    "article",
    { class: `finding ${state}`, "data-finding": place.key, "data-trace": trace.index },
    make("h3", {}, `${SIGN[state] ?? ""} `, head),
    make("p", { class: "faint" }, worth, rule),
    detail ? make("p", {}, nameOf(detail)) : null,
    fix ? make("p", {}, make("strong", {}, "Do: "), nameOf(fix)) : null,
    placesNode(context, trace, place, finding),
  );
}

// Its gaps, or else its events by name, each with how long it lasts.
function placesNode(context: Context, trace: Shown, place: Place, finding: Finding): HTMLElement | null {
  const isGap = place.shades.length > 0;
  const { facts } = trace;
  const named = (name: number) => facts.decoded.get(name)?.short || facts.names[name];
  const spans: Span[] = isGap
    ? place.shades.map(([from, to], at) => ({ from, to, name: `gap ${at + 1}` }))
    : place.events.map(([, from, to, name]) => ({ from, to, name: named(name) }));
  if (!spans.length) return null;
  const word = isGap ? "gap" : "event";
  const link = ({ from, to, name }: Span, at: number) => {
    const go = () => context.store.set({ ...pointed(trace, place), view: framed(trace, { frame: [from, to] }) });
    const length = timeText(to - from);
    return [button(nameOf(name), go, { class: "link", "aria-label": `${word} ${at + 1}: ${name}, ${length}` }), ` ${length}`];
  };
  const shown: Child[] = spans.slice(0, MOST_LISTED).map((span, at) => [at ? ", " : "", link(span, at)]);
  const known = isGap ? Number(finding.evidence.gaps ?? spans.length) : spans.length;
  const kept = known > spans.length ? `; the timeline shades the ${numberText(spans.length)} longest` : "";
  const rest = known > MOST_LISTED ? ` of ${numberText(known)}${isGap ? kept : " listed"}` : "";
  return make("p", { class: "places" }, isGap ? "Longest gaps: " : "Events: ", shown, rest);
}

// The finding that is selected, wherever it was selected, is marked, and opened where it is folded.
function follow({ store }: Context, node: HTMLElement): void {
  const { selection } = store.state;
  for (const each of node.querySelectorAll<HTMLElement>(".finding")) {
    const { finding, trace } = each.dataset;
    const isSelected = selection?.kind === "finding" && selection.rule === finding && selection.trace === Number(trace);
    each.toggleAttribute("aria-current", isSelected);
    const fold = isSelected ? each.closest("details") : null;
    if (fold) fold.open = true;
  }
}
