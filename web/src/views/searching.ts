// Search by name: a list of the names that were found, with counts, and the way from one event to the next.

import "./searching.css";
import { button, make, nameOf, replace } from "../base/dom";
import { numberText } from "../base/units";
import { home } from "../core/align";
import type { Context } from "../core/context";
import { type HitName, Hits, searchAll, viewOf } from "../core/hits";

const WAIT_MS = 120;
const MOST_NAMES = 100;

export function searching(context: Context): HTMLElement {
  return new Searching(context).node;
}

class Searching {
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

  // When typing rests.
  private later(): void {
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
      return make(
        "li",
        {},
        button([nameOf(label), about, make("span", { class: "count" }, numberText(each.count))], () => this.go(1, each)),
      );
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
