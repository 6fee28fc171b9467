// Text to the clipboard, where the browser lets a page do that.

import { button, make, replace } from "../../base/dom";

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // a page from disk may have no clipboard of its own
    const before = document.activeElement as HTMLElement | null,
      field = make("textarea", { "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    before?.focus();
    return done;
  }
}

const SAID_MS = 2000;

export function copyButton(text: string): HTMLElement {
  const copy = async () => {
    node.textContent = (await copyText(text)) ? "copied" : "not allowed";
    setTimeout(() => replace(node, "copy"), SAID_MS);
  };
  const node = button("copy", copy, { "aria-label": `Copy ${text}`, class: "copy" });
  return node;
}
