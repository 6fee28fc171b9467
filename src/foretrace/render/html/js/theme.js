// Light and dark: the system setting, until the user chooses otherwise. Paper is always light.

import { byId } from "./dom.js";

export function followTheme(colours, redraw) {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => {
    root.dataset.theme = theme;
    colours.read();
    redraw();
  };
  let chosen = system.matches ? "dark" : "light";
  apply(chosen);
  system.addEventListener("change", () => apply(chosen = system.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => apply(chosen = root.dataset.theme === "dark" ? "light" : "dark"));
  window.addEventListener("beforeprint", () => apply("light"));
  window.addEventListener("afterprint", () => apply(chosen));
}
