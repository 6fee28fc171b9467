// What traces are aligned by: `zero` of each is where the chosen step or region starts in it.

import type { Anchor } from "../data/documents";
import type { Range } from "../data/source";
import type { Context } from "./context";

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
