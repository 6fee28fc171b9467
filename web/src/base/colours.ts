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
  note = "";
  annotation = "";
  private groups = new Map<string, string>();
  private inks = new Map<string, string>();
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
    this.note = this.value("--note");
    this.annotation = this.value("--annotation");
    this.groups = new Map();
    this.inks = new Map();
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

  // What can be read on a colour: that of the two inks which differs more.
  ink(fill: string): string {
    const known = this.inks.get(fill);
    if (known !== undefined) return known;
    const light = luminance(fill);
    const contrast = (ink: string) => (Math.max(luminance(ink), light) + 0.05) / (Math.min(luminance(ink), light) + 0.05);
    const found = contrast(DARK) > contrast(LIGHT) ? DARK : LIGHT;
    this.inks.set(fill, found);
    return found;
  }

  // GPU idle time: the colour of its cause, which is also hatched in a direction of its own.
  idle(cause: string): string {
    return this.group(`idle-${cause}`);
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

const DARK = "#10151c";
const LIGHT = "#ffffff";

// As WCAG defines it, of `#rrggbb`.
export function luminance(colour: string): number {
  const parts = (colour.match(/[0-9a-f]{2}/gi) ?? []).map((part) => parseInt(part, 16) / 255);
  const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

// The direction of the lines of each cause, in degrees: it can be told without colours.
export const HATCHED: Record<string, number> = {
  launch: 45,
  host: 135,
  sync: 90,
  copy: 0,
  queue: 65,
  profiler: 115,
  capture: 25,
  unknown: 155,
};

// Lines as the background of an element.
export function hatch(cause: string, colour: string): string {
  return `repeating-linear-gradient(${HATCHED[cause] ?? 45}deg, ${colour} 0 2px, transparent 2px 5px)`;
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
