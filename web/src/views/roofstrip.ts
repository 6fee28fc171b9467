// Kernels of which only the traffic is known, on an axis of their own: what they reach of HBM and L2.

import { scaleLog } from "d3-scale";
import { makeIn } from "../base/dom";
import { numberText } from "../base/units";
import type { Context } from "../core/context";
import type { Domain, Dot, RoofPlot } from "../core/roofplot";
import { xAxis } from "./plotting";
import { type Disc, type Drawn, dotShape, LARGEST, LEFT, powers, RIGHT, radius } from "./roofdots";
import { names } from "./rooflabels";

export const STRIP = 150; // pixels high
const HEAD = 30,
  FOOT = 36;

export function paintStrip(
  svg: SVGElement,
  width: number,
  top: number,
  plot: RoofPlot,
  context: Context,
  words: (dot: Dot) => string,
): { nodes: (SVGElement | SVGElement[])[]; drawn: Drawn[]; places: (readonly [Dot, Disc])[] } {
  const x = scaleLog()
    .domain(plot.gbps)
    .range([LEFT + LARGEST, width - RIGHT - LARGEST]);
  const [upper, lower] = [top + HEAD, top + STRIP - FOOT],
    middle = (upper + lower) / 2;
  const discs = plot.traffic.map((dot) => ({ x: x(dot.kernel.gbps ?? 1), y: middle, r: radius(dot, plot) })),
    drawn = plot.traffic.map((dot, at) => ({ dot, shape: dotShape(svg, discs[at], dot, context, words(dot)) }));
  const text = (said: string, attributes: Record<string, string | number>) => makeIn(svg, "text", { class: "title", ...attributes }, said);
  const ends: Domain = [x.invert(LEFT), x.invert(width - RIGHT)];
  const roofs = plot.slopes.flatMap(({ name, rate }) => {
    const at = x(rate * 1e3);
    return [
      makeIn(svg, "path", { class: name === "HBM" ? "roof" : "roof l2", d: `M${at} ${upper - 12}V${lower}` }),
      text(name, { class: "label", x: name === "HBM" ? at - 3 : at + 3, y: upper - 4, "text-anchor": name === "HBM" ? "end" : "start" }),
    ];
  });
  const nodes = [
    makeIn(svg, "path", { class: "grid", d: `M${LEFT} ${middle}H${width - RIGHT}` }),
    xAxis(svg, x, lower, { values: powers(ends), text: (value) => numberText(value, 3) }),
    text("GB/s", { x: (LEFT + width - RIGHT) / 2, y: top + STRIP - 4, "text-anchor": "middle" }),
    text("no FLOP known: traffic alone", { x: LEFT, y: top + 10 }),
    roofs,
    drawn.map(({ shape }) => shape),
    names({ svg, width, height: top + STRIP }, plot.traffic, discs, []),
  ];
  return { nodes, drawn, places: plot.traffic.map((dot, at) => [dot, discs[at]] as const) };
}
