// The list of changes beside the tracks of several traces: a click goes to where a change is, and once more to its next place.

import "./changes.css";
import { button, make, nameOf, replace } from "../base/dom";
import { timeText } from "../base/units";
import type { Context } from "../core/context";
import type { Joins } from "../core/joins";
import type { WorkEntry } from "../data/documents";
import { pairChoice, pairNumber } from "./pairs";

const AROUND = 0.6; // of a place to each side of it, so that one sees where it is

export function changeList(context: Context): HTMLElement | null {
  const { compared, store } = context;
  if (!compared) return null;
  const steps = new Steps(context);
  const body = make("div", {});
  const draw = () => {
    const joins = context.joins[pairNumber(context)];
    replace(body, verdict(joins), list(joins, steps));
  };
  draw();
  store.on(["pair"], draw);
  store.on(["selection", "align"], () => steps.mark(body));
  context.keys.add("c", "go to the next change (Shift: the one before)", (event) => steps.walk(event.shiftKey ? -1 : 1));
  return make("aside", { class: "changelist", "aria-label": "Changes" }, make("h3", {}, "Changes"), pairChoice(context), body);
}

// Against the first trace it stands above, in the summary of the page.
function verdict({ pair }: Joins): HTMLElement | null {
  if (!pair.a) return null;
  const { answer, text } = pair.document.verdict;
  return make("p", {}, make("strong", {}, `${answer.toUpperCase()}: `), nameOf(text));
}

function list(joins: Joins, steps: Steps): HTMLElement {
  const rows = joins.pair.document.work;
  const most = Math.max(1, ...rows.map((row) => Math.abs(saved(row) ?? 0)));
  const item = (row: WorkEntry, change: number) => {
    const bar = make("span", { class: `bar ${(saved(row) ?? 0) < 0 ? "slower" : "faster"}`, "aria-hidden": "true" });
    bar.style.width = `${(100 * Math.abs(saved(row) ?? 0)) / most}%`;
    const inside = [nameOf(row.text), make("span", { class: "saved" }, savedText(row)), bar];
    return make(
      "li",
      {},
      button(inside, () => steps.next(change), { "data-change": change }),
    );
  };
  const changed = rows.flatMap((row, at) => (row.fate === "same" ? [] : [item(row, at)]));
  const same = rows.flatMap((row, at) => (row.fate === "same" ? [item(row, at)] : []));
  return make(
    "div",
    {},
    changed.length ? make("ul", {}, changed) : make("p", { class: "faint" }, "The same GPU work."),
    same.length ? make("details", {}, make("summary", {}, `the same: ${same.length} kinds of work`), make("ul", {}, same)) : null,
  );
}

function saved({ ns_a, ns_b }: WorkEntry): number | null {
  return ns_a === null || ns_b === null ? null : ns_a - ns_b;
}

function savedText(row: WorkEntry): string {
  const ns = saved(row);
  if (ns === null) return "time unknown";
  return ns ? `${ns > 0 ? "−" : "+"}${timeText(Math.abs(ns))}` : "";
}

// Where in the changes the page is: known from what is selected, so that an address restores it.
class Steps {
  constructor(private readonly context: Context) {}

  // The first place of a change, or the one after the place that is selected.
  next(change: number): void {
    const places = this.joins.of(change);
    const at = places.findIndex((place) => this.selected(place));
    this.go(places, (at + 1) % places.length);
  }

  // Along all changes, in order of time.
  walk(by: number): boolean {
    const changed = this.joins.pair.document.work.flatMap((row, at) => (row.fate === "same" ? [] : this.joins.of(at)));
    if (!changed.length) return false;
    const { traces } = this.context;
    changed.sort((a, b) => this.joins.around(a, traces).from - this.joins.around(b, traces).from);
    const at = changed.findIndex((place) => this.selected(place));
    this.go(changed, at < 0 && by < 0 ? changed.length - 1 : (at + by + changed.length) % changed.length);
    return true;
  }

  // Frame the change that is selected.
  mark(body: HTMLElement): void {
    for (const node of body.querySelectorAll<HTMLElement>("[data-change]")) {
      const here = this.joins.of(Number(node.dataset.change)).some((place) => this.selected(place));
      node.setAttribute("aria-pressed", String(here));
    }
  }

  private get joins(): Joins {
    return this.context.joins[pairNumber(this.context)];
  }

  private selected(place: Parameters<Joins["around"]>[0]): boolean {
    const { selection } = this.context.store.state;
    if (selection?.kind !== "range") return false;
    const { from, to } = this.joins.around(place, this.context.traces);
    return Math.abs(selection.range.from - from) < 1 && Math.abs(selection.range.to - to) < 1;
  }

  private go(places: ReturnType<Joins["of"]>, at: number): void {
    const { store, traces, say } = this.context;
    if (!places.length) return;
    const range = this.joins.around(places[at], traces),
      room = Math.max((range.to - range.from) * AROUND, 1000);
    store.set({ selection: { kind: "range", range }, view: { from: range.from - room, to: range.to + room } });
    say(`Change ${at + 1} of ${places.length}: ${this.joins.pair.document.work[places[at].change].text}`);
  }
}
