// The keys of the viewer, and what the mouse does.

import "./help.css";
import { button, make, replace } from "../base/dom";
import type { Context } from "../core/context";

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
  const dialog = make("dialog", { class: "keys-help", "aria-label": "Keys and mouse" }, make("h2", {}, "Keys and mouse"), body, close);
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // no key moves what is behind it
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  const open = () => {
    replace(body, table("Keys", together(keys.keys)), table("Mouse", MOUSE));
    dialog.showModal();
  };
  keys.add("?", "show this list", open);
  return make("span", {}, button("?", open, { "aria-label": "Keys and mouse", title: "Keys and mouse" }), dialog);
}

// Keys that do the same have one row.
function together(keys: Context["keys"]["keys"]): [string, string][] {
  const rows = new Map<string, string[]>();
  for (const { key, text } of keys) {
    const shown = SHOWN[key] ?? key.toUpperCase();
    rows.set(text, [...new Set([...(rows.get(text) ?? []), shown])]);
  }
  return Array.from(rows, ([text, each]) => [each.join(" "), text]);
}

function table(title: string, rows: readonly [string, string][]): HTMLElement {
  const kbd = (text: string) => text.split(" ").map((part) => [part === "+" || /^[a-z]/.test(part) ? part : make("kbd", {}, part), " "]);
  return make(
    "table",
    {},
    make("caption", {}, title),
    make(
      "tbody",
      {},
      rows.map(([keys, text]) => make("tr", {}, make("th", { scope: "row" }, kbd(keys)), make("td", {}, text))),
    ),
  );
}
