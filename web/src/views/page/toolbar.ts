// Search by name: a list of the names that were found, with counts, and the way from one event to the next.

import "./searching.css";
import "./help.css";
import { button, make, nameOf, replace } from "../../base/dom";
import { numberText } from "../../base/units";
import type { Context } from "../../core/context";
import { home, padded, whole } from "../../core/moving";
import { type HitName, Hits, searchAll, viewOf } from "../../core/searching";
import type { State } from "../../core/store";
import type { StepExtent } from "../../data/documents";
import type { Range } from "../../data/source";

const WAIT_MS = 120;
const MOST_NAMES = 100;

export class Searching {
  readonly node: HTMLElement;
  private readonly field: HTMLInputElement;
  private readonly list = make("ul", { class: "hits", "aria-label": "Names found" });
  private readonly said = make("span", { class: "faint", role: "status" });
  private hits = new Hits([], []);
  private waiting = 0;
  private turn = 0;

  constructor(private readonly context: Context) {
    const { store, keys } = context;
    this.field = make("input", { type: "search", placeholder: "/ search", "aria-label": "Search events by name", autocomplete: "off" });
    this.field.value = store.state.search;
    this.node = make("span", { class: "searching" }, this.field, this.said, this.list);
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("input", () => this.later());
    store.on(["search"], ({ search }) => this.find(search));
    keys.add("/", "search events by name; Enter and Shift+Enter: the next and the previous one", () => {
      this.field.focus();
      this.field.select();
    });
    if (store.state.search) this.find(store.state.search);
  }

  private later(): void {
    this.node.classList.remove("went");
    clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => this.context.store.set({ search: this.field.value }), WAIT_MS);
  }

  private async find(text: string): Promise<void> {
    this.turn += 1;
    const mine = this.turn;
    if (document.activeElement !== this.field) this.field.value = text;
    const hits = await searchAll(this.context, text);
    if (mine !== this.turn) return;
    this.hits = hits;
    const names = hits.names.length;
    const words = `${numberText(hits.count)} ${hits.count === 1 ? "event" : "events"}, ${numberText(names)} ${names === 1 ? "name" : "names"}`;
    replace(this.said, text ? words : "");
    this.showNames();
  }

  private showNames(): void {
    const several = this.context.traces.length > 1;
    const row = (each: HitName) => {
      const { facts } = each.trace;
      const label = facts.decoded.get(each.name)?.short || facts.names[each.name];
      const about = several ? make("span", { class: "faint" }, nameOf(facts.title)) : null;
      const count = make("span", { class: "count" }, numberText(each.count)),
        go = button([nameOf(label), about, count], () => this.go(1, each));
      return make("li", {}, go);
    };
    const rest = this.hits.names.length - MOST_NAMES;
    replace(
      this.list,
      this.hits.names.slice(0, MOST_NAMES).map(row),
      rest > 0 ? make("li", { class: "faint" }, `and ${numberText(rest)} more names`) : null,
    );
  }

  private go(step: number, only?: HitName): void {
    const { store, say } = this.context;
    if (only) this.field.focus();
    this.node.classList.add("went"); // the list would cover what was found
    const hit = this.hits.next(store.state.selection, step, only);
    if (!hit) return;
    const view = viewOf(store.state.view ?? home(this.context), hit);
    store.set({ view, selection: { kind: "event", trace: hit.trace, event: hit.event } });
    const at = this.hits.hits.indexOf(hit) + 1;
    const known = this.hits.hits.length < this.hits.count ? `, the first ${numberText(this.hits.hits.length)} can be visited` : "";
    replace(this.said, `${numberText(at)} of ${numberText(this.hits.count)}${known}`);
    say(`event ${numberText(at)} of ${numberText(this.hits.count)}`);
  }

  private key(event: KeyboardEvent): void {
    const inField = event.target === this.field;
    if (event.key === "Enter" && inField) this.enter(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.move(event.key === "ArrowDown" ? 1 : -1);
    else if (event.key === "Escape") this.leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private async enter(step: number): Promise<void> {
    clearTimeout(this.waiting);
    const { store } = this.context;
    if (store.state.search !== this.field.value) {
      store.set({ search: this.field.value });
      await this.find(this.field.value);
    }
    this.go(step);
  }

  // Along the names: the field is above the first.
  private move(step: number): void {
    this.node.classList.remove("went");
    const stops = [this.field, ...this.list.querySelectorAll("button")];
    const at = stops.indexOf(document.activeElement as HTMLButtonElement);
    stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
  }

  // From the list to the field; from the field back to the page, without a search.
  private leave(): void {
    if (document.activeElement !== this.field) {
      this.field.focus();
      return;
    }
    this.field.value = "";
    this.context.store.set({ search: "" });
    this.field.blur();
  }
}

// The steps to go to, and the ways back: the selection, the whole recording.

const HOME = "typical",
  ALL = "all",
  OTHER = "other";

export function steps(context: Context): HTMLElement {
  const { store, keys } = context;
  const choices = rangesOf(context);
  const menu = make(
    "select",
    { "aria-label": "Step" },
    choices.map(({ value, text }) => make("option", { value }, text)),
    make("option", { value: OTHER, hidden: "" }, "this range"),
  );
  menu.addEventListener("change", () => store.set({ view: choices.find(({ value }) => value === menu.value)?.range ?? null }));
  store.follow(["view", "align"], ({ view }) => {
    menu.value = choices.find(({ range }) => same(range, view))?.value ?? OTHER;
  });
  const go = (by: number) => {
    const numbered = choices.filter(({ value }) => value !== HOME && value !== ALL);
    const at = numbered.findIndex(({ value }) => value === menu.value);
    const next = numbered[at < 0 ? (context.traces[0].facts.step ?? 0) + by : at + by];
    return next ? store.set({ view: next.range }) : false;
  };
  keys.add(".", "to the next step", () => go(1));
  keys.add(",", "to the previous step", () => go(-1));
  const fit = button("fit", () => keys.press("f"), { title: "Fit the selection (F)" });
  const measure = button("range", () => keys.press("r"), { title: "Statistics of the visible range (R)" });
  return make("span", { class: "steps" }, menu, fit, measure);
}

// What times are of, in answers, tables and flame graphs. A trace without steps has only its recording.
export function basis({ store, traces }: Context): HTMLElement | null {
  const first = traces[0].entry.answers.bases[0];
  if (!traces.some(({ entry }) => entry.answers.bases.length > 1)) return null;
  const word = first?.per.startsWith("per step") ? "per step" : (first?.per ?? "per step");
  const parts: [State["basis"], string][] = [
    ["step", word],
    ["recording", "recording"],
  ];
  const buttons = parts.map(([value, text]) => button(text, () => store.set({ basis: value }), { "data-basis": value }));
  store.follow(["basis"], (state) => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.basis === state.basis));
  });
  return make("span", { class: "basis", role: "group", "aria-label": "Times are" }, buttons);
}

function rangesOf({ traces }: Context): { value: string; text: string; range: Range | null }[] {
  const [{ entry, facts, zero }] = traces;
  const per = entry.answers?.bases[0]?.per ?? "", // a page of ranks has no answers
    unit = /^per (.+?)( of .*)?$/.exec(per)?.[1] ?? "step"; // what repeats: step, call, decode batch
  const step = ({ name, start, last }: StepExtent, at: number) => ({
    value: String(at),
    text: name,
    range: padded({ from: start - zero, to: last - zero }, 0.01),
  });
  return [
    { value: HOME, text: facts.steps.length ? `typical ${unit}` : "all events", range: null },
    ...facts.steps.map(step),
    { value: ALL, text: "whole recording", range: padded(whole(traces), 0.01) },
  ];
}

// An address holds whole nanoseconds.
function same(a: Range | null, b: Range | null): boolean {
  return a === b || (a !== null && b !== null && Math.abs(a.from - b.from) < 1 && Math.abs(a.to - b.to) < 1);
}

const MOUSE: readonly [string, string][] = [
  ["wheel", "zoom at the pointer"],
  ["Shift + wheel", "move left and right"],
  ["wheel over the names", "scroll the tracks"],
  ["drag", "move"],
  ["Shift + drag", "select a range: its statistics"],
  ["click", "select an event"],
  ["Alt + click", "pin a track to the top, or unpin it"],
];
const SHOWN: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", " ": "Space" };

export function help({ keys }: Context): HTMLElement {
  const body = make("div");
  const close = button("close", () => dialog.close());
  const title = make("h2", {}, "Keys and mouse ", close);
  const dialog = make("dialog", { class: "keys-help", "aria-label": "Keys and mouse" }, title, body);
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // no key moves what is behind it
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  const open = () => {
    replace(body, list("Keys", together(keys.keys)), list("Mouse", MOUSE));
    dialog.showModal();
    dialog.scrollTop = 0; // it opens at its beginning
  };
  keys.add("?", "show this list", open);
  return make("span", {}, button("?", open, { "aria-label": "Keys and mouse", title: "Keys and mouse" }), dialog);
}

function together(keys: Context["keys"]["keys"]): [string, string][] {
  const rows = new Map<string, string[]>();
  for (const { key, text } of keys) {
    const shown = SHOWN[key] ?? key.toUpperCase();
    rows.set(text, [...new Set([...(rows.get(text) ?? []), shown])]);
  }
  return Array.from(rows, ([text, each]) => [each.join(" "), text]);
}

function list(title: string, rows: readonly [string, string][]): HTMLElement {
  const kbd = (text: string) => text.split(" ").map((part) => [part === "+" || /^[a-z]/.test(part) ? part : make("kbd", {}, part), " "]);
  const row = ([keys, text]: readonly [string, string]) => [make("dt", {}, kbd(keys)), make("dd", {}, text)];
  return make("section", {}, make("h3", {}, title), make("dl", {}, rows.map(row)));
}
