// What changed between traces: the times of all of them, and for two of them sentences, fusions and every kernel.

import { make, nameOf, replace } from "../base/dom";
import { numberText, percentText, timeText } from "../base/units";
import type { Context } from "../core/context";
import { padded } from "../core/moving";
import type { Column } from "../core/rows";
import type { ChangeEntry, CompareDocument, ComparedKernel, ComparedKernels, FusionEntry } from "../data/documents";
import { Grid } from "./grid";
import { pairChoice, pairNumber } from "./pairs";

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
    const found = compared.pairs[pairNumber(context)].document;
    replace(body, ...words(found), fusions(found.fusions), kernels(context));
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
      { title: "kernel", kind: "name", value: (row) => row.short || row.name, hint: (row) => row.name },
      { title: "state", kind: "number", value: (row) => row.state, text: (row) => `${SIGNS[row.state]} ${row.state}` },
      { title: "op", kind: "words", optional: true, value: (row) => row.op ?? "" },
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
