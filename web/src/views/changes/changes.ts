// What changed between traces: the times of all of them, and for two of them sentences, fusions and every kernel.

import "./changes.css";
import { button, make, nameOf, replace, sentence } from "../../base/dom";
import { numberText, percentText, timeText } from "../../base/units";
import type { Context } from "../../core/context";
import type { Joins } from "../../core/joins";
import { changeAlign, isChange, padded } from "../../core/moving";
import type { Column } from "../../core/rows";
import type {
  ChangeEntry,
  CompareDocument,
  ComparedKernel,
  ComparedKernels,
  ComparedPair,
  FusionEntry,
  WorkEntry,
} from "../../data/documents";
import { shareBar, spanBar } from "../page/bars";
import { Grid } from "../page/grid";

const SIGNS: Record<keyof ComparedKernels, string> = { same: "=", changed: "≠", added: "+", removed: "−" };
type Changed = ComparedKernel & { state: keyof ComparedKernels; first: number };

interface Measured {
  label: string;
  values: (ChangeEntry | undefined)[];
}

export function changes(context: Context): HTMLElement | null {
  const { compared, store } = context;
  if (!compared) return null;
  const body = make("div", {});
  const draw = () => {
    const pair = compared.pairs[pairNumber(context)],
      found = pair.document;
    replace(body, prediction(pair), ...words(found), fusions(found.fusions), kernels(context));
  };
  draw();
  store.on(["pair"], draw);
  return make("section", { class: "changes" }, times(context), pairChoice(context), body);
}

// Medians of every trace beside each other; each is compared with the first.
function times({ compared, traces }: Context): HTMLElement {
  const documents = (compared?.pairs ?? []).filter(({ a }) => a === 0).map((pair) => pair.document);
  const measures: [string, (found: CompareDocument) => ChangeEntry | undefined][] = [
    ["GPU busy", (found) => found.gpu_ns],
    ["host (includes profiler overhead)", (found) => found.cpu_ns],
    ["wall (includes profiler overhead)", (found) => found.wall_ns],
    ["wall without the profiler", (found) => found.bare_wall_ns],
  ];
  const unit = { region: "call", step: "step", trace: "recording" }[documents[0].a.unit.kind] ?? "repeat";
  const rows: Measured[] = measures.flatMap(([label, of]) => {
    const values = documents.map(of);
    return values.some((value) => value) ? [{ label, values }] : [];
  });
  const columns = traces.map(({ entry }, at): Column<Measured> => {
    const value = ({ values }: Measured) => (at ? values[at - 1]?.b : values[0]?.a) ?? null;
    const text = (row: Measured) => timeText(value(row)) + (at ? ratioText(row.values[at - 1]) : "");
    return { title: entry.title, kind: "words", unit: "ns", value, text };
  });
  const caption = `Median of one ${unit}; in brackets the ratio to the first trace, and the noise`;
  return new Grid([{ title: "time", kind: "name", value: (row) => row.label }, ...columns], rows, { caption }).node;
}

function ratioText(value: ChangeEntry | undefined): string {
  if (!value || value.ratio === null) return "";
  return ` (${value.ratio.toFixed(2)}x${value.noise === null ? "" : `, ± ${percentText(value.noise)}`})`;
}

function words(found: CompareDocument): (HTMLElement | null)[] {
  const list = (title: string, sentences: string[]) =>
    sentences.length
      ? make(
          "section",
          {},
          make("h4", {}, title),
          make(
            "ul",
            {},
            sentences.map((text) => make("li", {}, nameOf(text))),
          ),
        )
      : null;
  const worth = found.worth.text ? make("p", {}, nameOf(found.worth.text)) : null;
  return [worth, list("Changed", found.changed), list("Unchanged (within the noise)", found.unchanged)];
}

function fusions(list: FusionEntry[]): HTMLElement | null {
  if (!list.length) return null;
  const item = (fusion: FusionEntry) =>
    make(
      "li",
      {},
      nameOf(fusion.kernel),
      " takes the place of ",
      nameOf(fusion.replaces.join(", ")),
      fusion.ns_saved === null ? "" : ` and saves ${timeText(fusion.ns_saved)}`,
    );
  return make("section", {}, make("h4", {}, "Fused"), make("ul", {}, list.map(item)));
}

// A click selects the kernel where it is launched first, in the trace that has it.
function kernels(context: Context): HTMLElement {
  const { pair } = context.joins[pairNumber(context)];
  const states: (keyof ComparedKernels)[] = ["changed", "added", "removed", "same"];
  const rows = states.flatMap((state) => pair.document.kernels[state].map((row, at) => ({ ...row, state, first: pair.first[state][at] })));
  return new Grid<Changed>(
    [
      { title: "kernel", kind: "name", value: ({ kernel }) => kernel.short || kernel.name, hint: ({ kernel }) => kernel.name },
      { title: "state", kind: "number", value: (row) => row.state, text: (row) => `${SIGNS[row.state]} ${row.state}` },
      { title: "op", kind: "words", optional: true, value: ({ kernel }) => kernel.ops[0] ?? "" },
      { title: "A", kind: "number", value: (row) => row.a, text: (row) => numberText(row.a) },
      { title: "B", kind: "number", value: (row) => row.b, text: (row) => numberText(row.b) },
      {
        title: "median A",
        kind: "number",

        unit: "ns",
        value: (row) => row.median_ns.a,
        text: (row) => timeText(row.median_ns.a),
      },
      {
        title: "median B",
        kind: "number",

        unit: "ns",
        value: (row) => row.median_ns.b,
        text: (row) => timeText(row.median_ns.b),
      },
      { title: "why", kind: "words", value: (row) => (row.why ?? []).join("; "), hint: (row) => (row.why ?? []).join("; ") },
    ],
    rows,
    { caption: "Kernels of a typical repeat, side by side", onRow: (row) => select(context, row) },
  ).node;
}

function select(context: Context, { state, first }: Changed): void {
  const { joins, store, traces } = context;
  const own = joins[pairNumber(context)],
    trace = state === "added" ? own.pair.b : own.pair.a,
    place = own.holding(trace, first);
  const selection = { kind: "event", trace, event: first } as const;
  store.set(place ? { selection, view: padded(own.around(place, traces), 0.6) } : { selection });
}

// The list of changes beside the tracks of several traces: a click goes to where a change is, and once more to its next place.

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
  store.on(["selection", "align"], ({ selection, align }) => {
    steps.mark(body);
    if (!selection && isChange(align)) store.set({ align: "", view: null }); // Escape: the traces lie on one ruler again
  });
  context.keys.add("c", "go to the next change, the largest first (Shift: the one before)", (event) => steps.walk(event.shiftKey ? -1 : 1));
  return make("aside", { class: "changelist", "aria-label": "Changes" }, make("h3", {}, "Changes"), pairChoice(context), body);
}

// Against the first trace the verdict stands above, in the summary of the page. What was predicted of a fix that was made is here.
function verdict({ pair }: Joins): HTMLElement {
  const { answer, text } = pair.document.verdict;
  return make("div", {}, pair.a ? make("p", {}, make("strong", {}, `${answer.toUpperCase()}: `), sentence(text)) : null, prediction(pair));
}

function prediction({ predicted, document }: ComparedPair): HTMLElement | null {
  const { predicted: mark } = document;
  if (!mark) return null;
  const longest = Math.max(mark.before_ns, mark.high_ns, mark.measured_ns);
  const row = (words: string, at: number, interval: { low?: number; high?: number }) =>
    make("li", {}, make("span", {}, words), spanBar({ at, ...interval, longest, base: mark.before_ns, kind: words }));
  return make(
    "section",
    { class: "prediction", "aria-label": "Predicted and measured" },
    make("p", {}, make("strong", {}, "PREDICTED: "), nameOf(predicted)),
    make(
      "ul",
      { class: "tracks" },
      row("predicted", mark.predicted_ns, { low: mark.low_ns, high: mark.high_ns }),
      row("measured", mark.measured_ns, {}),
    ),
  );
}

function list(joins: Joins, steps: Steps): HTMLElement {
  const rows = joins.pair.document.work;
  const most = Math.max(1, ...rows.map((row) => Math.abs(saved(row) ?? 0)));
  const item = (row: WorkEntry, change: number) => {
    const bar = shareBar(Math.abs(saved(row) ?? 0) / most, (saved(row) ?? 0) < 0 ? "slower" : "faster");
    const inside = [nameOf(row.text), make("span", { class: "saved" }, savedText(row)), bar];
    return make(
      "li",
      {},
      button(inside, () => steps.next(change), { "data-change": change }),
    );
  };
  const changed = joins.bySize().map((at) => item(rows[at], at));
  const same = rows.flatMap((row, at) => (row.fate === "same" ? [item(row, at)] : []));
  return make(
    "div",
    {},
    changed.length ? make("ul", {}, changed) : make("p", { class: "faint" }, "The same GPU work."),
    same.length
      ? make(
          "details",
          {},
          make("summary", {}, `the same: ${same.length === 1 ? "1 kind" : `${same.length} kinds`} of work`),
          make("ul", {}, same),
        )
      : null,
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

  // Along all changes, the largest first; each at its first place.
  walk(by: number): boolean {
    const changed = this.joins.bySize().filter((change) => this.joins.of(change).length);
    if (!changed.length) return false;
    const at = changed.findIndex((change) => this.joins.of(change).some((place) => this.selected(place)));
    const next = at < 0 && by < 0 ? changed.length - 1 : (at + by + changed.length) % changed.length;
    this.go(this.joins.of(changed[next]), 0);
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
    say(`Change ${at + 1} of ${places.length}: ${this.joins.pair.document.work[places[at].change].text}`);
  }
}

// Which two traces of several the changes are about.

// Which two traces; none to choose with two.
function pairChoice(context: Context): HTMLElement | null {
  const { compared, store, traces } = context;
  if (!compared || compared.pairs.length < 2) return null;
  const titles = traces.map(({ entry }) => entry.title);
  const options = compared.pairs.map(({ a, b }, at) => make("option", { value: at }, `${titles[b]} against ${titles[a]}`));
  const select = make("select", { "aria-label": "Which traces are compared" }, options);
  const follow = () => {
    select.value = String(pairNumber(context));
  };
  follow();
  store.on(["pair"], follow);
  select.addEventListener("change", () => store.set({ pair: Number(select.value) }));
  return select;
}

function pairNumber({ compared, store }: Context): number {
  return store.state.pair < (compared?.pairs.length ?? 0) ? store.state.pair : 0;
}
