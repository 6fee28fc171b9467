// Where the view may go: ranges in shared time, see context.ts.

import type { Anchor } from "../data/documents";
import type { Range } from "../data/source";
import type { Context, Shown } from "./context";

const LEAST = 20; // ns: a kernel that takes 1 us still fits fifty times

// From the first event of any trace to the last.
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

export function anchorOf({ compared, store }: Context): Anchor | null {
  const anchors = compared?.anchors ?? [];
  return anchors.find(({ name }) => name === store.state.align) ?? anchors[0] ?? null;
}

// Where the page opens, in shared time: the chosen step or region of the trace that takes longest, else the typical step.
export function home(context: Context): Range {
  const anchor = anchorOf(context);
  const ends = context.traces.map(({ entry, facts, zero }, at) => {
    const { steps, step } = entry.timeline;
    return (anchor?.ends[at] ?? steps[step ?? -1]?.last ?? facts.end) - zero;
  });
  return { from: 0, to: Math.max(1, ...ends) };
}

// Align now, and whenever `align` changes. To be called before any view listens: they draw with the new zeros.
export function followAlign(context: Context): void {
  let applied: Anchor | null = null;
  const apply = (): boolean => {
    const anchor = anchorOf(context);
    if (!anchor || anchor === applied) return false;
    applied = anchor;
    context.traces.forEach((trace, at) => {
      trace.zero = anchor.starts[at] ?? trace.zero;
    });
    return true;
  };
  apply();
  context.store.on(["align"], () => {
    if (apply()) context.store.touch();
  });
}
