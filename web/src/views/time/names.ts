// The names of the tracks. They scroll; the canvas beside them follows. A click folds, Alt-click pins.

import { make, middleOf, replace } from "../../base/dom";
import { type Track, toggled } from "../../core/tracks";
import { NAME_HEIGHT, type Scene } from "./scene";

export interface Names {
  pinned: HTMLElement;
  moving: HTMLElement;
  show: () => void;
}

export function names(scene: Scene): Names {
  const pinned = make("div", { class: "names pinned" });
  const list = make("div", { class: "names" });
  const moving = make("div", { class: "scroller" }, list);
  moving.addEventListener("scroll", () => {
    scene.scroll = moving.scrollTop;
    scene.redraw();
  });
  const show = () => {
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.key : undefined;
    const [above, below] = [scene.layout.pinned, scene.layout.moving].map((tracks) => tracks.map((track) => nameNode(scene, track)));
    replace(pinned, above);
    replace(list, below);
    pinned.style.height = `${scene.layout.pinnedHeight}px`;
    list.style.height = `${scene.layout.height}px`;
    const again = [...pinned.children, ...list.children].find((each) => (each as HTMLElement).dataset.key === focused);
    if (focused) (again as HTMLElement | undefined)?.focus({ preventScroll: true }); // names are made anew, the focus stays
    showOpened(scene, moving);
  };
  return { pinned, moving, show };
}

// What was just opened comes into view, its name at most to the top.
function showOpened(scene: Scene, scroller: HTMLElement): void {
  const at = scene.layout.moving.findIndex((track) => track.key === scene.opened && track.open);
  scene.opened = "";
  if (at < 0) return;
  const { top, trace } = scene.layout.moving[at];
  const inside = scene.layout.moving.slice(at + 1).filter((track) => track.trace === trace);
  const bottom = Math.max(top, ...inside.map((track) => track.top + track.height));
  const room = scene.height - scene.layout.pinnedHeight;
  if (bottom > scroller.scrollTop + room) scroller.scrollTop = Math.min(top, bottom - room);
}

export function pin({ context: { store } }: Scene, { key }: Track): void {
  const { pinned } = store.state;
  store.set({ pinned: pinned.includes(key) ? pinned.filter((each) => each !== key) : [...pinned, key] });
}

function nameNode(scene: Scene, track: Track): HTMLElement {
  const sign = track.open === null ? "" : track.open ? "▾ " : "▸ ";
  const title = `${track.label}${track.byHand ? " (pinned)" : ""}`,
    expanded = track.open === null ? null : String(track.open),
    spoken = { "aria-label": track.label || "Python frames", "aria-expanded": expanded };
  const words = make("span", {}, track.byHand ? "◆ " : sign, middleOf(track.label)),
    node = make("button", { class: `track ${track.kind}`, type: "button", title, "data-key": track.key, ...spoken }, words);
  // Where names have no room beside the tracks, they lie above them.
  const above = scene.narrow && (track.kind === "lane" || track.kind === "gpu") ? NAME_HEIGHT : 0;
  node.style.top = `${track.top - above}px`;
  node.style.height = `${above || track.height}px`;
  node.style.paddingLeft = `${4 + track.depth * 12}px`;
  node.addEventListener("click", (event) => {
    if (event.altKey) return pin(scene, track);
    const { store } = scene.context;
    scene.opened = track.key;
    if (track.open !== null) store.set({ open: toggled(store.state.open, track) });
  });
  return node;
}
