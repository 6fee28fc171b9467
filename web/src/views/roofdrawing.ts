// The drawing of one roofline: axes, roofs, dots and the lines between two traces; below, kernels that only move bytes.

import { type ScaleLogarithmic, scaleLog } from "d3-scale";
import { makeIn, replace } from "../base/dom";
import { numberText } from "../base/units";
import type { Context } from "../core/context";
import type { Domain, Dot, Line, RoofPlot } from "../core/roofplot";
import { xAxis, yAxis } from "./plotting";
import { type Disc, type Drawn, dotShape, LARGEST, LEFT, powers, RIGHT, radius } from "./roofdots";
import { BOTTOM, type Label, LETTER, names, peakLabel, TOP } from "./rooflabels";
import { paintStrip, STRIP } from "./roofstrip";

type Scale = ScaleLogarithmic<number, number>;

interface Frame {
  svg: SVGElement;
  width: number;
  height: number;
  x: Scale;
  y: Scale;
  xs: Domain; // what the axes hold, to their ends
  ys: Domain;
}

export function paintRoofline(
  svg: SVGSVGElement,
  width: number,
  plot: RoofPlot,
  pairs: readonly [Dot, Dot][],
  context: Context,
  words: (dot: Dot) => string,
): Drawn[] {
  const frame = frameOf(svg, width, plot),
    strip = plot.traffic.length ? paintStrip(svg, width, frame.height, plot, context, words) : null;
  const discs = plot.dots.map((dot) => ({ x: frame.x(dot.intensity), y: frame.y(dot.tflops), r: radius(dot, plot) })),
    drawn = plot.dots.map((dot, at) => ({ dot, shape: dotShape(svg, discs[at], dot, context, words(dot)) }));
  const places = new Map([...plot.dots.map((dot, at) => [dot, discs[at]] as const), ...(strip?.places ?? [])]),
    taken: Label[] = [],
    roofs = roofLines(frame, plot, discs, taken);
  replace(
    svg,
    axes(frame),
    roofs.map(({ line }) => line),
    pairs.map(([from, to]) => joint(svg, places.get(from), places.get(to))),
    drawn.map(({ shape }) => shape),
    roofs.map(({ label }) => label), // over the dots, to be read
    names(frame, plot.dots, discs, taken),
    strip?.nodes,
  );
  return [...drawn, ...(strip?.drawn ?? [])];
}

function frameOf(svg: SVGSVGElement, width: number, plot: RoofPlot): Frame {
  const height = Math.round(Math.min(Math.max(width * 0.5, 280), 460));
  const x = scaleLog()
    .domain(plot.x)
    .range([LEFT + LARGEST, width - RIGHT - LARGEST]);
  const y = scaleLog()
    .domain(plot.y)
    .range([height - BOTTOM - LARGEST, TOP + LARGEST]);
  const whole = height + (plot.traffic.length ? STRIP : 0);
  svg.setAttribute("height", String(whole));
  svg.setAttribute("viewBox", `0 0 ${width} ${whole}`);
  return { svg, width, height, x, y, xs: [x.invert(LEFT), x.invert(width - RIGHT)], ys: [y.invert(height - BOTTOM), y.invert(TOP)] };
}

function axes({ svg, width, height, x, y, xs, ys }: Frame): SVGElement[] {
  const across = powers(xs),
    up = powers(ys),
    text = (value: number) => (value < 1e-3 ? value.toExponential(0) : numberText(value, 3));
  const grid = [
    ...across.map((value) => `M${x(value)} ${TOP}V${height - BOTTOM}`),
    ...up.map((value) => `M${LEFT} ${y(value)}H${width - RIGHT}`),
    `M${LEFT} ${TOP}V${height - BOTTOM}H${width - RIGHT}`,
  ];
  const title = (words: string, attributes: Record<string, string | number>) =>
    makeIn(svg, "text", { class: "title", ...attributes }, words);
  return [
    makeIn(svg, "path", { class: "grid", d: grid.join("") }),
    xAxis(svg, x, height - BOTTOM, { values: across, text }),
    yAxis(svg, y, LEFT, { values: up, text }),
    title("FLOP per byte", { x: (LEFT + width - RIGHT) / 2, y: height - 6, "text-anchor": "middle" }),
    title("TFLOP/s", { x: 0, y: 0, transform: `translate(11 ${(TOP + height - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }),
  ];
}

interface Labelled {
  line: SVGElement;
  label: SVGElement;
}

function roofLines(frame: Frame, plot: RoofPlot, discs: readonly Disc[], taken: Label[]): Labelled[] {
  const { svg, width, x, y, xs, ys } = frame;
  const path = ([x1, y1, x2, y2]: Line, kind: string) => makeIn(svg, "path", { class: kind, d: `M${x(x1)} ${y(y1)}L${x(x2)} ${y(y2)}` });
  const slopes = plot.slopes.flatMap((slope) => {
    const line = plot.slopeLine(slope, xs, ys),
      text = `${slope.name} ${numberText(slope.rate, 2)} TB/s`;
    return line ? [{ line: path(line, slope.name === "HBM" ? "roof" : "roof l2"), label: slopeLabel(frame, line, text, discs) }] : [];
  });
  const flats = plot.flats.flatMap((flat) => {
    const line = plot.flatLine(flat, xs),
      text = `${flat.names.join(", ")} ${numberText(flat.tflops, flat.tflops < 10 ? 1 : 0)} TFLOP/s`;
    if (!line) return [];
    const place = peakLabel(x(line[0]), width - RIGHT, y(flat.tflops), text.length * LETTER, discs, taken),
      end = { x: place.x + place.width, y: place.y, "text-anchor": "end" };
    return [{ line: path(line, "roof"), label: makeIn(svg, "text", { class: "label", ...end }, text) }];
  });
  return [...slopes, ...flats];
}

// Along the slope near its lower end, where no dot is; that of L2 above it, that of HBM below.
function slopeLabel({ svg, x, y }: Frame, [x1, y1, x2, y2]: Line, text: string, discs: readonly Disc[]): SVGElement {
  const [left, low, right, high] = [x(x1), y(y1), x(x2), y(y2)],
    length = Math.hypot(right - left, high - low),
    wide = text.length * LETTER,
    side = text.startsWith("L2") ? -5 : 13;
  const at = (along: number) => ({ x: left + ((right - left) * along) / length, y: low + ((high - low) * along) / length });
  const free = (start: number) => {
    const line = [0, 0.25, 0.5, 0.75, 1].map((part) => at(start + wide * part));
    return !discs.some((disc) => line.some((each) => Math.hypot(each.x - disc.x, each.y + side / 2 - disc.y) < disc.r + 10));
  };
  const starts = Array.from({ length: Math.max(Math.floor((length - wide) / 20), 1) }, (_, step) => 12 + step * 20),
    { x: fromX, y: fromY } = at(starts.find(free) ?? starts[0]);
  const angle = (Math.atan2(high - low, right - left) * 180) / Math.PI,
    place = `translate(${fromX} ${fromY}) rotate(${angle})`;
  return makeIn(svg, "text", { class: "label", transform: place, x: 0, y: side }, text);
}

// From a kernel to what stands in its place in the trace below.
function joint(svg: SVGElement, from: Disc | undefined, to: Disc | undefined): SVGElement | null {
  return from && to ? makeIn(svg, "path", { class: "joint", d: `M${from.x} ${from.y}L${to.x} ${to.y}` }) : null;
}
