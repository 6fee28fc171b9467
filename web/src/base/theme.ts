// Light and dark: the system setting, until the user chooses otherwise. Paper is always light.

import type { Colours } from "./colours";
import { byId } from "./dom";

export function followTheme(colours: Colours, redraw: () => void): void {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = "";
  const apply = (theme: string) => {
    root.dataset.theme = theme;
    colours.read();
    redraw();
  };
  const choose = (dark: boolean) => {
    chosen = dark ? "dark" : "light";
    apply(chosen);
  };
  choose(system.matches);
  system.addEventListener("change", () => choose(system.matches));
  byId("theme").addEventListener("click", () => choose(root.dataset.theme !== "dark"));
  window.addEventListener("beforeprint", () => apply("light"));
  window.addEventListener("afterprint", () => apply(chosen));
}
