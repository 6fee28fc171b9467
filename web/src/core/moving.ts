// Where the view may go: ranges in shared time, see context.ts.

import type { Anchor } from "../data/documents";
import type { Range } from "../data/source";
import type { Context, Shown } from "./context";

const LEAST = 20; // ns: a kernel that takes 1 us still fits fifty times

export function whole(traces: readonly Shown[]): Range {
  const from = Math.min(...traces.map(({ zero }) => -zero));
  return { from, to: Math.max(from + LEAST, ...traces.map(({ facts, zero }) => facts.end - zero)) };
}

export function padded({ from, to }: Range, part: number): Range {
  const room = Math.max((to - from) * part, 1);
  return { from: from - room, to: to + room };
}

// A range that is neither too short to read nor far outside of all traces.
export function allowed({ from, to }: Range, traces: readonly Shown[]): Range {
  const all = whole(traces);
  const span = Math.min(Math.max(to - from, LEAST), (all.to - all.from) * 1.2 + LEAST);
  const middle = Math.min(Math.max((from + to) / 2, all.from), all.to);
  return { from: middle - span / 2, to: middle + span / 2 };
}

export function zoomed({ from, to }: Range, factor: number, at: number): Range {
  return { from: at - (at - from) * factor, to: at + (to - at) * factor };
}

export function panned({ from, to }: Range, shift: number): Range {
  return { from: from + shift, to: to + shift };
}

// What traces are aligned by: `zero` of each is where the chosen step or region starts in it.

const CHANGE = /^change (\d{1,6})$/; // a place of the pair that is listed

export function changeAlign(place: number): string {
  return `change ${place}`;
}

export function isChange(align: string): boolean {
  return CHANGE.test(align);
}

export function anchorOf(context: Context): Anchor | null {
  const { compared, store } = context;
  const anchors = compared?.anchors ?? [];
  return anchors.find(({ name }) => name === store.state.align) ?? changeAnchor(context) ?? anchors[0] ?? null;
}

// Each of two traces at its own place of a change; the page still opens at the step.
function changeAnchor({ compared, joins, store }: Context): Anchor | null {
  const { align, pair } = store.state;
  const own = joins?.[pair],
    place = own?.places[Number(align.match(CHANGE)?.[1] ?? Number.NaN)],
    first = compared?.anchors[0];
  if (!own || !place || !first) return null;
  const starts = [...first.starts];
  [starts[own.pair.a], starts[own.pair.b]] = own.begins(place);
  return { name: align, starts, ends: first.ends };
}

// Where the page opens, in shared time: the chosen step or region of the trace that takes longest, else the typical step.
export function home(context: Context): Range {
  const anchor = anchorOf(context);
  const ends = context.traces.map(({ entry, facts, zero }, at) => {
    const { steps, step } = entry.timeline;
    return (anchor?.ends[at] ?? steps[step ?? -1]?.last ?? facts.end) - zero;
  });
  const first = anchor && isChange(anchor.name) ? context.compared?.anchors[0] : null;
  const starts = first ? context.traces.map(({ zero }, at) => first.starts[at] - zero) : [0];
  return { from: Math.min(...starts), to: Math.max(1, ...ends) };
}

// Align now, and whenever `align` changes. To be called before any view listens: they draw with the new zeros.
export function followAlign(context: Context): void {
  let applied = "";
  const apply = (): boolean => {
    const anchor = anchorOf(context),
      wanted = JSON.stringify(anchor);
    if (!anchor || wanted === applied) return false;
    applied = wanted;
    context.traces.forEach((trace, at) => {
      trace.zero = anchor.starts[at] ?? trace.zero;
    });
    return true;
  };
  apply();
  context.store.on(["align", "pair"], () => {
    if (apply()) context.store.touch();
  });
}
