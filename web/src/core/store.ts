// What the viewer shows, in one place. Views read it, change it through `set`, and are told what changed; they never call each
// other. All of it is in the address of the page, see address.ts.

import type { Range } from "../data/source";

export const TABS = [
  "findings",
  "kernels",
  "flame",
  "roofline",
  "memory",
  "changes",
  "guesses",
  "matmuls",
  "ladder",
  "ledger",
  "sql",
] as const;
export type Tab = (typeof TABS)[number];

export type Selection =
  | { kind: "event"; trace: number; event: number }
  | { kind: "range"; range: Range } // in shared time
  | { kind: "finding"; trace: number; rule: string };

export interface State {
  view: Range | null; // in shared time, see context.ts; null: where the page opens, the typical step
  selection: Selection | null;
  tab: Tab;
  filter: string; // of the table in the open tab
  search: string;
  pinned: readonly string[]; // tracks that stay on top, by key: `0/gpu0/stream7`
  open: readonly string[]; // folded tracks that were opened
  marks: readonly number[]; // times that M marked
  align: string; // what traces are aligned by: a step or region by name; empty: the typical step
  pair: number; // of `compared.pairs`: the two traces whose changes are listed
}

export const INITIAL: State = {
  view: null,
  selection: null,
  tab: "findings",
  filter: "",
  search: "",
  pinned: [],
  open: [],
  marks: [],
  align: "",
  pair: 0,
};

type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

export class Store {
  private readonly listeners: { keys: readonly (keyof State)[]; listener: Listener }[] = [];
  private waiting: Set<keyof State> | null = null;

  constructor(private current: State = INITIAL) {}

  get state(): State {
    return this.current;
  }

  // Change some of it. Listeners run once, after all changes that one event makes.
  set(patch: Partial<State>): void {
    const keys = (Object.keys(patch) as (keyof State)[]).filter((key) => patch[key] !== this.current[key]);
    if (!keys.length) return;
    this.current = { ...this.current, ...patch };
    if (!this.waiting) queueMicrotask(() => this.tell());
    this.waiting = new Set([...(this.waiting ?? []), ...keys]);
  }

  // Everyone draws again, as after a change of colours.
  touch(): void {
    const keys = Object.keys(this.current) as (keyof State)[];
    for (const { listener } of [...this.listeners]) listener(this.current, new Set(keys));
  }

  // Hear of changes of some keys; returns how to stop.
  on(keys: readonly (keyof State)[], listener: Listener): () => void {
    const entry = { keys, listener };
    this.listeners.push(entry);
    return () => {
      this.listeners.splice(this.listeners.indexOf(entry), 1);
    };
  }

  private tell(): void {
    const changed = this.waiting ?? new Set();
    this.waiting = null;
    for (const { keys, listener } of [...this.listeners]) {
      if (keys.some((key) => changed.has(key))) listener(this.current, changed);
    }
  }
}
