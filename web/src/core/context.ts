// What every view is given: the traces on the page, the store, the keys. Times in the store are shared by all traces: those of a
// trace less its `zero`, which is the start of the step or region that the traces are aligned by.

import type { Colours } from "../base/colours";
import { byId, replace } from "../base/dom";
import type { Compared, TraceFacts as Entry } from "../data/documents";
import type { TraceFacts } from "../data/events";
import type { DataSource, Range } from "../data/source";
import type { Joins } from "./joins";
import { KeyMap } from "./keys";
import type { Picture } from "./pen";
import { Store } from "./store";

export interface Shown {
  index: number;
  entry: Entry; // what Python wrote
  facts: TraceFacts;
  source: DataSource;
  zero: number; // ns of the trace at shared time 0
}

export interface Context {
  store: Store;
  traces: readonly Shown[];
  colours: Colours;
  keys: KeyMap;
  say: (text: string) => void; // to screen readers, and in the status line
  compared: Compared | null; // with several traces: what changed, and what they can be aligned by
  joins: readonly Joins[]; // of `compared.pairs`, in the same order
  pictures: Picture[]; // views add what can be saved of them
}

export function contextOf(
  traces: readonly Shown[],
  colours: Colours,
  compared: Compared | null = null,
  joins: readonly Joins[] = [],
): Context {
  const say = (text: string) => replace(byId("status"), text);
  return { store: new Store(), traces, colours, keys: new KeyMap(), say, compared, joins, pictures: [] };
}

// A range of a trace in shared time, and back.
export function shared(trace: Shown, { from, to }: Range): Range {
  return { from: from - trace.zero, to: to - trace.zero };
}

export function ownTime(trace: Shown, { from, to }: Range): Range {
  return { from: from + trace.zero, to: to + trace.zero };
}
