// The dots of a roofline: one for each kernel, its area the share of kernel time, its shape the trace.

import { makeIn } from "../base/dom";
import type { Context } from "../core/context";
import type { Domain, Dot, RoofPlot } from "../core/roofplot";

export const LEFT = 50,
  RIGHT = 20,
  LARGEST = 16; // radius of a dot, and the room that the axes leave around the values
const SMALLEST = 3; // can still be hit

export interface Drawn {
  dot: Dot;
  shape: SVGElement;
}

export interface Disc {
  x: number;
  y: number;
  r: number;
}

export function radius({ share }: Dot, { largest }: RoofPlot): number {
  return Math.max(LARGEST * Math.sqrt(share / largest), SMALLEST);
}

export function dotShape(svg: SVGElement, { x, y, r }: Disc, dot: Dot, { colours, traces }: Context, words: string): SVGElement {
  const about = { class: "point", role: "button", "aria-label": words };
  const kind = traces.length > 1 ? dot.trace % 3 : 0,
    title = makeIn(svg, "title", {}, words);
  const made =
    kind === 0
      ? makeIn(svg, "circle", { cx: x, cy: y, r, ...about }, title)
      : makeIn(svg, "path", { d: kind === 1 ? square(x, y, r * 0.88) : triangle(x, y, r), ...about }, title);
  made.style.fill = colours.group(dot.kernel.role);
  return made;
}

function square(x: number, y: number, r: number): string {
  return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`;
}

function triangle(x: number, y: number, r: number): string {
  return `M${x} ${y - r}L${x + r} ${y + r * 0.8}H${x - r}Z`;
}

// The powers of ten within an axis.
export function powers([low, high]: Domain): number[] {
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high)); power++) found.push(Number(`1e${power}`));
  return found;
}
