// Colours come from the style sheet, so that light, dark and print each have their own.

import { byId } from "./dom";

export class Colours {
  text = "";
  faint = "";
  line = "";
  back = "";
  panel = "";
  accent = "";
  warn = "";
  onFill = "";
  private groups = new Map<string, string>();
  private stops: number[][] = [];

  constructor() {
    this.read();
  }

  read(): void {
    this.text = this.value("--text");
    this.faint = this.value("--faint");
    this.line = this.value("--line");
    this.back = this.value("--back");
    this.panel = this.value("--panel");
    this.accent = this.value("--accent");
    this.warn = this.value("--warn");
    this.onFill = this.value("--on-fill");
    this.groups = new Map();
    this.stops = ["--heat-low", "--heat-middle", "--heat-high"].map((name) =>
      (this.value(name).match(/[0-9a-f]{2}/g) ?? []).map((part) => parseInt(part, 16)),
    );
  }

  private value(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // From the least (0) to the most (1) of a heat map.
  heat(share: number): string {
    return `rgb(${this.mixed(share).join(" ")})`;
  }

  // What can be read on it.
  heatInk(share: number): string {
    const [red, green, blue] = this.mixed(share);
    return red * 0.3 + green * 0.59 + blue * 0.11 > 128 ? "#10151c" : "#ffffff";
  }

  private mixed(share: number): number[] {
    const half = share < 0.5 ? 0 : 1;
    const part = share * 2 - half;
    return this.stops[half].map((value, at) => Math.round(value + (this.stops[half + 1][at] - value) * part));
  }

  group(name: string): string {
    let found = this.groups.get(name);
    if (found === undefined) {
      found = this.value(`--${name.replaceAll("_", "-")}`) || this.value("--other");
      this.groups.set(name, found);
    }
    return found;
  }
}

// Light and dark: the system setting, until the user chooses otherwise. Paper is always light.

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
