// Colours come from the style sheet, so that light, dark and print each have their own.

import { byId } from "./dom";

export class Colours {
  private readonly known = new Map<string, string>();
  private readonly inks = new Map<string, string>();

  forget(): void {
    this.known.clear();
    this.inks.clear();
  }

  of(name: string): string {
    let found = this.known.get(name);
    if (found === undefined) {
      const value = (each: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${each}`).trim();
      found = value(name.replaceAll("_", "-")) || value("other");
      this.known.set(name, found);
    }
    return found;
  }

  // GPU idle time: the colour of its cause, which is also hatched in a direction of its own.
  idle(cause: string): string {
    return this.of(`idle-${cause}`);
  }

  heat(share: number): string {
    const names = share < 0.5 ? ["heat-low", "heat-middle"] : ["heat-middle", "heat-high"];
    const [low, high] = names.map((name) => rgbOf(this.of(name)));
    const part = share * 2 - (share < 0.5 ? 0 : 1);
    return hexOf(low.map((value, at) => value + (high[at] - value) * part));
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
}

const DARK = "#10151c";
const LIGHT = "#ffffff";

export type Rgb = readonly number[]; // three numbers to 255

export function rgbOf(colour: string): Rgb {
  const [red = 128, green = 128, blue = 128] = (colour.match(/[0-9a-f]{2}/gi) ?? []).map((part) => parseInt(part, 16));
  return [red, green, blue];
}

export function hexOf(rgb: Rgb): string {
  return `#${rgb.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
}

// As WCAG defines it, of `#rrggbb`.
function luminance(colour: string): number {
  const parts = rgbOf(colour).map((part) => part / 255);
  const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
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
    colours.forget();
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
