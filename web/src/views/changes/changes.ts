// What changed between traces: the times of all of them, and for two of them sentences, fusions and every kernel.

import "./changes.css";
import { button, make, nameOf, replace, sentence } from "../../base/dom";
import type { Context } from "../../core/context";
import type { Joins } from "../../core/joins";
import { changeAlign, isChange, padded } from "../../core/moving";
import type { Change } from "../../data/documents";
import { shareBar } from "../page/bars";
import { tableNode } from "../page/grid";
import { tablesNode } from "../page/tables";

export function changes(context: Context): HTMLElement | null {
  const { compared, store } = context;
  if (!compared) return null;
  const body = make("div", {});
  store.follow(["pair"], () => {
    const { predicted, tables } = compared.pairs[pairNumber(context)],
      node = tablesNode(predicted ? [predicted, ...tables] : tables, (to) => select(context, to));
    replace(body, node);
  });
  return make("section", { class: "changes" }, tableNode(compared.times), pairChoice(context), body);
}

// `event 1.34`: a kernel where it is launched first, in the trace that has it.
function select({ joins, store, traces, compared }: Context, to: string): void {
  const [trace, event] = to.replace("event ", "").split(".").map(Number),
    own = joins[pairNumber({ compared, store })],
    place = own.holding(trace, event);
  const selection = { kind: "event", trace, event } as const;
  store.set(place ? { selection, view: padded(own.around(place, traces), 0.6) } : { selection });
}

// The list of changes beside the tracks of several traces: a click goes to where a change is, and once more to its next place.

const AROUND = 0.6; // of a place to each side of it, so that one sees where it is

export function changeList(context: Context): HTMLElement | null {
  const { compared, store } = context;
  if (!compared) return null;
  const steps = new Steps(context);
  const body = make("div", {});
  store.follow(["pair"], () => {
    const joins = context.joins[pairNumber(context)];
    replace(body, verdict(joins), list(joins, steps));
  });
  store.on(["selection", "align"], ({ selection, align }) => {
    steps.mark(body);
    if (!selection && isChange(align)) store.set({ align: "", view: null }); // Escape: the traces lie on one ruler again
  });
  context.keys.add("c", "go to the next change, the largest first (Shift: the one before)", (event) => steps.walk(event.shiftKey ? -1 : 1));
  return make("aside", { class: "changelist", "aria-label": "Changes" }, make("h3", {}, "Changes"), pairChoice(context), body);
}

// Against the first trace the verdict stands above, in the summary of the page. What was predicted of a fix that was made is here.
function verdict({ pair }: Joins): HTMLElement {
  const { a, verdict, predicted } = pair;
  return make("div", {}, a ? make("p", {}, make("strong", {}, sentence(verdict))) : null, predicted ? tableNode(predicted) : null);
}

function list(joins: Joins, steps: Steps): HTMLElement {
  const rows = joins.pair.changes;
  const most = Math.max(1, ...rows.map(({ saved_ns }) => Math.abs(saved_ns ?? 0)));
  const item = ({ text, saved, saved_ns }: Change, change: number) => {
    const bar = shareBar(Math.abs(saved_ns ?? 0) / most, (saved_ns ?? 0) < 0 ? "slower" : "faster");
    const inside = [nameOf(text), make("span", { class: "saved" }, saved), bar],
      go = button(inside, () => steps.next(change), { "data-change": change });
    return make("li", {}, go);
  };
  const changed = joins.bySize().map((at) => item(rows[at], at));
  const same = rows.flatMap((row, at) => (row.same ? [item(row, at)] : []));
  const kinds = same.length === 1 ? "1 kind" : `${same.length} kinds`;
  return make(
    "div",
    {},
    changed.length ? make("ul", {}, changed) : make("p", { class: "faint" }, "The same GPU work."),
    same.length ? make("details", {}, make("summary", {}, `the same: ${kinds} of work`), make("ul", {}, same)) : null,
  );
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

  // Along all changes, the largest first; each at its first place.
  walk(by: number): boolean {
    const changed = this.joins.bySize().filter((change) => this.joins.of(change).length);
    if (!changed.length) return false;
    const at = changed.findIndex((change) => this.joins.of(change).some((place) => this.selected(place)));
    const next = at < 0 && by < 0 ? changed.length - 1 : (at + by + changed.length) % changed.length;
    this.go(this.joins.of(changed[next]), 0);
    return true;
  }

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
    const { align, selection } = this.context.store.state;
    if (selection?.kind !== "range") return false;
    if (isChange(align)) return align === changeAlign(this.joins.places.indexOf(place));
    const { from, to } = this.joins.around(place, this.context.traces);
    return Math.abs(selection.range.from - from) < 1 && Math.abs(selection.range.to - to) < 1;
  }

  // Both traces begin their place at time 0, so that what takes longer is longer on the screen.
  private go(places: ReturnType<Joins["of"]>, at: number): void {
    const { store, say } = this.context;
    if (!places.length) return;
    const longest = Math.max(...places[at].sides.map((side) => (side ? side.to - side.from : 0))),
      range = { from: 0, to: longest },
      room = Math.max(longest * AROUND, 1000);
    const align = changeAlign(this.joins.places.indexOf(places[at]));
    store.set({ align, selection: { kind: "range", range }, view: { from: -room, to: longest + room } });
    say(`Change ${at + 1} of ${places.length}: ${this.joins.pair.changes[places[at].change].text}`);
  }
}

function pairChoice(context: Context): HTMLElement | null {
  const { compared, store, traces } = context;
  if (!compared || compared.pairs.length < 2) return null;
  const titles = traces.map(({ entry }) => entry.title);
  const options = compared.pairs.map(({ a, b }, at) => make("option", { value: at }, `${titles[b]} against ${titles[a]}`));
  const select = make("select", { "aria-label": "Which traces are compared" }, options);
  store.follow(["pair"], () => {
    select.value = String(pairNumber(context));
  });
  select.addEventListener("change", () => store.set({ pair: Number(select.value) }));
  return select;
}

function pairNumber({ compared, store }: Pick<Context, "compared" | "store">): number {
  return store.state.pair < (compared?.pairs.length ?? 0) ? store.state.pair : 0;
}
