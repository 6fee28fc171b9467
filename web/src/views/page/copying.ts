// A button that copies a text, and says so.

import { button } from "../../base/dom";
import { copyText } from "./grid";

const SAID_MS = 2000;

export function copyButton(text: string): HTMLElement {
  const node = button(
    "copy",
    async () => {
      node.textContent = (await copyText(text)) ? "copied" : "not allowed";
      setTimeout(() => {
        node.textContent = "copy";
      }, SAID_MS);
    },
    { "aria-label": `Copy ${text}`, class: "copy" },
  );
  return node;
}
