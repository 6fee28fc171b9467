// Tabs below the timeline; a part without a node has nothing to show, and no tab. Arrow keys go from tab to tab.

import "./tabs.css";
import { button, listOf, make } from "../../base/dom";
import type { Context } from "../../core/context";
import { fromAddress, INITIAL, type State, type Store, toAddress } from "../../core/store";

export interface TabPart {
  tab: string;
  title: string;
  node: HTMLElement | null; // `data-count` is shown behind the title
}

interface Shown {
  tab: string;
  head: HTMLButtonElement;
  panel: HTMLElement;
}

export function tabs({ store, keys }: Context, parts: readonly TabPart[]): HTMLElement {
  const shown = parts.flatMap((part) => (part.node ? [tabOf(part, part.node, () => store.set({ tab: part.tab }))] : []));
  const open = () => shown.find(({ tab }) => tab === store.state.tab) ?? shown[0];
  store.follow(["tab"], () => {
    for (const each of shown) {
      const isOpen = each === open();
      each.head.setAttribute("aria-selected", String(isOpen));
      each.head.tabIndex = isOpen ? 0 : -1;
      each.panel.hidden = !isOpen;
    }
  });
  const go = (step: number) => {
    const next = shown[(shown.indexOf(open()) + step + shown.length) % shown.length];
    store.set({ tab: next.tab });
    next.head.focus();
  };
  const list = listOf("div", { class: "heads", role: "tablist", "aria-label": "Tables and plots" }, shown, ({ head }) => head);
  list.addEventListener("keydown", (event) => {
    const at = shown.indexOf(open());
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: shown.length - 1 - at }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    go(step);
  });
  keys.add("[", "the tab to the left", () => go(-1));
  keys.add("]", "the tab to the right", () => go(1));
  const panels = shown.map(({ panel }) => panel);
  return make("section", { class: "tabs" }, list, panels);
}

function tabOf({ tab, title }: TabPart, node: HTMLElement, choose: () => void): Shown {
  const { count } = node.dataset;
  const head = button(count ? `${title} (${count})` : title, choose, { role: "tab", id: `tab-${tab}`, "aria-controls": `panel-${tab}` });
  const about = { class: "tabpanel", role: "tabpanel", id: `panel-${tab}`, "aria-labelledby": `tab-${tab}`, tabindex: 0 },
    panel = make("div", about, node);
  return { tab, head, panel };
}

// The address of a view: read when the page opens and when a person changes it, replaced when the view rests.

const REST_MS = 200;
const KEYS = Object.keys(INITIAL) as (keyof State)[];

export function followAddress(store: Store): void {
  let waiting = 0;
  const read = () => store.set(fromAddress(location.hash));
  const write = () => history.replaceState(null, "", `#${toAddress(store.state)}`);
  const saved = document.documentElement.dataset.address; // of a page that was saved with its notes
  if (location.hash) read();
  else if (saved) store.set(fromAddress(saved));
  window.addEventListener("hashchange", read);
  store.on(KEYS, () => {
    clearTimeout(waiting);
    waiting = window.setTimeout(write, REST_MS);
  });
}
