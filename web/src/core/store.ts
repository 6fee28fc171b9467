// What the viewer shows, in one place. Views read it, change it through `set`, and are told what changed; they never call each
// other. All of it is in the address of the page, see address.ts.

import type { Range } from "../data/source";

export type Selection =
  | { kind: "event"; trace: number; event: number }
  | { kind: "range"; range: Range } // in shared time
  | { kind: "finding"; trace: number; rule: string };

// In shared time; `from` and `to` are the same for a mark.
export interface Note extends Range {
  text: string;
}

export interface State {
  view: Range | null; // in shared time, see context.ts; null: where the page opens, the typical step
  selection: Selection | null;
  tab: string; // the open tab; the first one where no tab has this name
  filter: string; // of the table in the open tab
  search: string;
  pinned: readonly string[]; // tracks that stay on top, by key: `0/gpu0/stream7`
  open: readonly string[]; // folded tracks that were opened
  marks: readonly number[]; // times that M marked
  notes: readonly Note[]; // words on a time or a range
  align: string; // what traces are aligned by: a step or region by name; empty: the typical step
  pair: number; // of `compared.pairs`: the two traces whose changes are listed
  basis: "step" | "recording"; // what times are of, everywhere; a trace without steps has only its recording
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
  notes: [],
  align: "",
  pair: 0,
  basis: "step",
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

  // Now, and after each change of some keys.
  follow(keys: readonly (keyof State)[], listener: Listener): () => void {
    listener(this.current, new Set());
    return this.on(keys, listener);
  }

  private tell(): void {
    const changed = this.waiting ?? new Set();
    this.waiting = null;
    for (const { keys, listener } of [...this.listeners]) {
      if (keys.some((key) => changed.has(key))) listener(this.current, changed);
    }
  }
}

// A view as the part of an address after `#`, so that a link restores it. An address may come from anyone: what is not sound is
// left out, and every text stays text.

const MOST_TEXT = 500;
const MOST_LISTED = 100;
const WHOLE = /^-?\d{1,16}$/;

export function toAddress(state: State): string {
  const parts = new URLSearchParams();
  if (state.view) parts.set("view", rangeText(state.view));
  const { selection } = state;
  if (selection?.kind === "range") parts.set("select", `range.${rangeText(selection.range)}`);
  else if (selection)
    parts.set("select", `${selection.kind}.${selection.trace}.${selection.kind === "event" ? selection.event : selection.rule}`);
  if (state.tab !== INITIAL.tab) parts.set("tab", state.tab);
  if (state.filter) parts.set("filter", state.filter);
  if (state.search) parts.set("search", state.search);
  for (const key of state.pinned) parts.append("pin", key);
  for (const key of state.open) parts.append("open", key);
  if (state.align) parts.set("align", state.align);
  if (state.pair) parts.set("pair", String(state.pair));
  if (state.basis !== INITIAL.basis) parts.set("basis", state.basis);
  for (const time of state.marks) parts.append("mark", String(Math.round(time)));
  for (const note of state.notes) parts.append("note", `${rangeText(note)}_${note.text}`);
  return parts.toString();
}

export function fromAddress(address: string): State {
  const parts = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name: string) => (parts.get(name) ?? "").slice(0, MOST_TEXT);
  const list = (name: string) => [...new Set(parts.getAll(name))].filter((each) => each.length <= MOST_TEXT).slice(0, MOST_LISTED);
  return {
    view: rangeOf(text("view")),
    selection: selectionOf(text("select")),
    tab: text("tab").match(/^[a-z]{1,20}$/)?.[0] ?? INITIAL.tab,
    filter: text("filter"),
    search: text("search"),
    pinned: list("pin"),
    open: list("open"),
    marks: list("mark")
      .filter((each) => WHOLE.test(each))
      .map(Number),
    notes: list("note").flatMap((said) => {
      const [, from, to, words] = said.match(/^(-?\d{1,16})_(-?\d{1,16})_(.+)$/s) ?? [];
      return words && Number(from) <= Number(to) ? [{ from: Number(from), to: Number(to), text: words }] : [];
    }),
    align: text("align"),
    pair: /^\d{1,3}$/.test(text("pair")) ? Number(text("pair")) : INITIAL.pair,
    basis: text("basis") === "recording" ? "recording" : INITIAL.basis,
  };
}

function rangeText({ from, to }: Range): string {
  return `${Math.round(from)}_${Math.round(to)}`;
}

function rangeOf(text: string): Range | null {
  const [from, to, ...more] = text.split("_");
  if (more.length || !WHOLE.test(from) || !WHOLE.test(to ?? "")) return null;
  return Number(from) < Number(to) ? { from: Number(from), to: Number(to) } : null;
}

function selectionOf(text: string): Selection | null {
  const range = text.startsWith("range.") ? rangeOf(text.slice("range.".length)) : null;
  if (range) return { kind: "range", range };
  const [, kind, trace, what] = text.match(/^(event|finding)\.(\d{1,3})\.(\w+)$/) ?? [];
  if (kind === "event") return /^\d{1,15}$/.test(what) ? { kind, trace: Number(trace), event: Number(what) } : null;
  return kind === "finding" ? { kind, trace: Number(trace), rule: what } : null;
}
