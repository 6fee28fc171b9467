// Fixes and findings beside the timeline: fixes as the terminal orders them, each once, then findings by what they save. One that is
// selected is marked here, and its events and gaps on the timeline.

import "./cards.css";
import "./insights.css";
import { button, listOf, make, nameOf, sentence } from "../../base/dom";
import { numberText } from "../../base/units";
import type { Context, Shown } from "../../core/context";
import { pointed } from "../../core/places";
import type { Insight } from "../../data/documents";
import { spanBar } from "../page/bars";

// What the traces are: name, card and steps in a line. Of several each has a line: what changed since the first one.
export function headlines({ traces, compared }: Context): HTMLElement {
  return listOf("section", { class: "cards", "aria-label": "Summary" }, traces, ({ index, entry, facts }) => {
    const verdict = compared?.pairs.find(({ a, b }) => a === 0 && b === index)?.verdict,
      about = verdict ?? entry.headline;
    const said = make("span", { class: verdict ? "verdict" : "faint" }, sentence(about));
    return make("h2", { title: about }, nameOf(facts.title), " · ", said);
  });
}

const WITH_KEYS = 3; // fixes that the keys 1, 2 and 3 go to

const isFix = ({ about }: Insight) => about === "fix";

export function insights(context: Context): HTMLElement | null {
  if (context.traces.length > 1) return null; // what changed stands there
  const [trace] = context.traces,
    { entry } = trace;
  if (!entry.insights.length) return null;
  const nodes = (some: Insight[]) => some.map((each, at) => chooser(context, trace, each, at));
  const fixes = entry.insights.filter(isFix),
    found = entry.insights.filter((each) => !isFix(each));
  const list = make(
    "div",
    { class: "list", tabindex: 0, role: "group", "aria-label": "Fixes and findings" },
    make("h3", {}, `Fixes (${numberText(fixes.length)})`),
    fixes.length ? nodes(fixes) : make("p", { class: "faint" }, nameOf(entry.answers.first)),
    found.length ? make("h3", {}, `Findings (${numberText(found.length)})`) : null,
    nodes(found),
  );
  return make("aside", { class: "insights", "aria-label": "Fixes and findings" }, list);
}

export function firstFixes(context: Context): HTMLElement | null {
  const firsts = context.traces.map((trace) => ({ trace, fix: trace.entry.insights[0] })).filter(({ fix }) => fix && isFix(fix));
  if (context.traces.length < 2 || !firsts.length) return null;
  return listOf("div", { class: "cards-row" }, firsts, ({ trace, fix }, at) => chooser(context, trace, fix, at));
}

// What a fix or a finding saves, and the step with it on one scale, which is the step now.
export function savesNode({ saves, bar, base = 0 }: Insight): HTMLElement | null {
  const drawn = bar ? spanBar(bar, Math.max(base, bar.high), base) : null;
  return saves ? make("span", { class: "times" }, make("strong", {}, saves), " ", drawn) : null;
}

function chooser({ store, say, keys, traces }: Context, trace: Shown, insight: Insight, at: number): HTMLElement {
  const { key, title, label, detail, saves } = insight,
    fix = isFix(insight);
  const where = traces.length > 1 ? [" · ", nameOf(trace.facts.title, { class: "faint" })] : null,
    labelled = label ? make("span", { class: "label" }, label.toLowerCase()) : null;
  const inside = [
    make("span", { class: "what" }, labelled, nameOf(title), where),
    savesNode(insight),
    fix ? make("span", { class: "why faint" }, nameOf(detail)) : null,
  ];
  const go = () => {
    store.set(pointed(trace, insight));
    say(`${title}. ${saves ?? ""}.`);
  };
  const node = button(inside, go, { class: fix ? "card" : "insight", title: fix ? detail : title, "data-finding": key });
  if (fix && at < WITH_KEYS) keys.add(String(at + 1), `fix ${at + 1}`, () => node.click());
  store.follow(["selection"], ({ selection }) => {
    const isSelected = selection?.kind === "finding" && selection.trace === trace.index && selection.rule === key;
    node.setAttribute("aria-pressed", String(isSelected));
  });
  return node;
}
