// Pictures of what is shown, and print; with several traces also what they are aligned by.

import "./exporting.css";
import { button, make } from "../base/dom";
import { anchorOf, home } from "../core/align";
import type { Context } from "../core/context";
import { pngOf, svgOf } from "./picture";

export function exporting(context: Context): HTMLElement {
  const save = (kind: string, make: () => Promise<Blob> | Blob) => async () => {
    const name = `${fileName(context)}.${kind}`;
    try {
      download(await make(), name);
      context.say(`Saved ${name}.`);
    } catch (problem) {
      context.say(`No picture: ${problem instanceof Error ? problem.message : String(problem)}.`);
    }
  };
  return make(
    "span",
    { class: "exporting" },
    aligning(context),
    button(
      "PNG",
      save("png", () => pngOf(context)),
      { title: "Save what is shown as a PNG file" },
    ),
    button(
      "SVG",
      save("svg", () => svgOf(context)),
      { title: "Save what is shown as an SVG file" },
    ),
    button("print", () => window.print(), { title: "Print what is shown" }),
  );
}

function aligning(context: Context): HTMLElement | null {
  const anchors = context.compared?.anchors ?? [];
  if (anchors.length < 2) return null;
  const select = make(
    "select",
    {},
    anchors.map(({ name }) => make("option", { value: name }, name)),
  );
  const follow = () => {
    select.value = anchorOf(context)?.name ?? "";
  };
  follow();
  context.store.on(["align"], follow);
  select.addEventListener("change", () => {
    context.store.set({ align: select.value === anchors[0].name ? "" : select.value });
    queueMicrotask(() => context.store.set({ view: home(context) }));
  });
  return make("label", { class: "aligning" }, "align by ", select);
}

// Characters that every file system takes.
function fileName({ traces }: Context): string {
  const titles = traces.map(({ entry }) => entry.title.replace(/\.(json|gz|zst|zip)\b/g, ""));
  return (
    titles
      .join("-")
      .replace(/[^\w.-]+/g, "_")
      .slice(0, 100) || "trace"
  );
}

function download(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
