// A view as the part of an address after `#`, so that a link restores it. An address may come from anyone: what is not sound is
// left out, and every text stays text.

import type { Range } from "../data/source";
import { INITIAL, type Selection, type State, TABS, type Tab } from "./store";

const MOST_TEXT = 500;
const MOST_LISTED = 100;
const WHOLE = /^-?\d{1,16}$/;

export function toAddress(state: State): string {
  const parts = new URLSearchParams();
  if (state.view) parts.set("view", rangeText(state.view));
  if (state.selection) parts.set("select", selectionText(state.selection));
  if (state.tab !== INITIAL.tab) parts.set("tab", state.tab);
  if (state.filter) parts.set("filter", state.filter);
  if (state.search) parts.set("search", state.search);
  for (const key of state.pinned) parts.append("pin", key);
  for (const key of state.open) parts.append("open", key);
  if (state.align) parts.set("align", state.align);
  if (state.pair) parts.set("pair", String(state.pair));
  for (const time of state.marks) parts.append("mark", String(Math.round(time)));
  return parts.toString();
}

export function fromAddress(address: string): State {
  const parts = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name: string) => (parts.get(name) ?? "").slice(0, MOST_TEXT);
  const list = (name: string) => [...new Set(parts.getAll(name))].filter((each) => each.length <= MOST_TEXT).slice(0, MOST_LISTED);
  return {
    view: rangeOf(text("view")),
    selection: selectionOf(text("select")),
    tab: TABS.find((each): each is Tab => each === text("tab")) ?? INITIAL.tab,
    filter: text("filter"),
    search: text("search"),
    pinned: list("pin"),
    open: list("open"),
    marks: list("mark")
      .filter((each) => WHOLE.test(each))
      .map(Number),
    align: text("align"),
    pair: /^\d{1,3}$/.test(text("pair")) ? Number(text("pair")) : INITIAL.pair,
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

function selectionText(selection: Selection): string {
  if (selection.kind === "range") return `range.${rangeText(selection.range)}`;
  const { kind, trace } = selection;
  return `${kind}.${trace}.${kind === "event" ? selection.event : selection.rule}`;
}

function selectionOf(text: string): Selection | null {
  const range = text.startsWith("range.") ? rangeOf(text.slice("range.".length)) : null;
  if (range) return { kind: "range", range };
  const [, kind, trace, what] = text.match(/^(event|finding)\.(\d{1,3})\.(\w+)$/) ?? [];
  if (kind === "event") return /^\d{1,15}$/.test(what) ? { kind, trace: Number(trace), event: Number(what) } : null;
  return kind === "finding" ? { kind, trace: Number(trace), rule: what } : null;
}
