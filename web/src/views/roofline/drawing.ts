// The drawing of one roofline: axes, roofs, dots and the lines between two traces; below, kernels that only move bytes.

import { type ScaleLogarithmic, scaleLog } from "d3-scale";
import { makeIn, replace } from "../../base/dom";
import { cutText, numberText, rateText } from "../../base/units";
import type { Context } from "../../core/context";
import { type Domain, type Dot, type Line, type RoofPlot, uncrossed } from "../../core/roofplot";
import { xAxis, yAxis } from "../page/plotting";

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
    joints(svg, pairs, places),
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

function roofLines(frame: Frame, plot: RoofPlot, discs: readonly Disc[], taken: Label[]): { line: SVGElement; label: SVGElement }[] {
  const { svg, width, x, y, xs, ys } = frame;
  const path = ([x1, y1, x2, y2]: Line, kind: string) => makeIn(svg, "path", { class: kind, d: `M${x(x1)} ${y(y1)}L${x(x2)} ${y(y2)}` });
  const slopes = plot.slopes.flatMap((slope) => {
    const line = plot.slopeLine(slope, xs, ys),
      text = `${slope.name} ${numberText(slope.rate, 2)} TB/s`;
    return line ? [{ line: path(line, slope.name === "HBM" ? "roof" : "roof l2"), label: slopeLabel(frame, line, text, discs) }] : [];
  });
  const flats = plot.flats.flatMap((flat) => {
    const line = plot.flatLine(flat, xs),
      text = `${flat.names.join(", ")} ${numberText(flat.tflops, flat.tflops < 100 ? 1 : 0)} TFLOP/s${flat.printed ? " (datasheet)" : ""}`;
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

// From a kernel to what stands in its place in the trace below. A line that would cross that of a larger kernel, or leads to the
// other plot, is seen only while one of its dots is pointed at or has the focus.
function joints(svg: SVGElement, pairs: readonly [Dot, Dot][], places: ReadonlyMap<Dot, Disc>): SVGElement[] {
  const lines = pairs.flatMap((pair) => {
    const [from, to] = pair.map((dot) => places.get(dot));
    return from && to && Math.hypot(from.x - to.x, from.y - to.y) > 1 ? [{ pair, ends: [from, to] as const }] : [];
  });
  const inOne = lines.filter(({ pair: [one, other] }) => !one.tflops === !other.tflops); // not from a plot to the other
  const seen = new Set(uncrossed(inOne.map(({ ends }) => ends)).map((at) => inOne[at]));
  return lines.map((line) => {
    const [from, to] = line.ends,
      kind = seen.has(line) ? "joint" : "joint crossing";
    return makeIn(svg, "path", { class: kind, d: `M${from.x} ${from.y}L${to.x} ${to.y}`, "data-pair": line.pair.map(dotKey).join(" ") });
  });
}

function dotKey({ trace, place }: Dot): string {
  return `${trace}.${place}`;
}

export function showJoints(svg: SVGElement, dot: Dot | undefined): void {
  for (const line of svg.querySelectorAll<SVGElement>(".joint")) {
    line.classList.toggle("chosen", dot !== undefined && (line.dataset.pair ?? "").split(" ").includes(dotKey(dot)));
  }
}

// The dots of a roofline: one for each kernel, its area the share of kernel time, its shape the trace.

export const LEFT = 50,
  RIGHT = 20,
  LARGEST = 16; // radius of a dot, and the room that the axes leave around the values
const SMALLEST = 3; // can still be hit

export interface Drawn {
  dot: Dot;
  shape: SVGElement;
}

type Disc = { x: number; y: number; r: number };

export function radius({ share }: Dot, { largest }: RoofPlot): number {
  return Math.max(LARGEST * Math.sqrt(share / largest), SMALLEST);
}

function dotShape(svg: SVGElement, { x, y, r }: Disc, dot: Dot, { colours, traces }: Context, words: string): SVGElement {
  const about = { class: "point", role: "button", "aria-label": words };
  const kind = traces.length > 1 ? dot.trace % 3 : 0,
    title = makeIn(svg, "title", {}, words);
  const side = r * 0.88,
    square = `M${x - side} ${y - side}h${2 * side}v${2 * side}h${-2 * side}Z`,
    triangle = `M${x} ${y - r}L${x + r} ${y + r * 0.8}H${x - r}Z`;
  const made = kind
    ? makeIn(svg, "path", { d: kind === 1 ? square : triangle, ...about }, title)
    : makeIn(svg, "circle", { cx: x, cy: y, r, ...about }, title);
  made.style.fill = colours.of(dot.kernel.role);
  return made;
}

export function powers([low, high]: Domain): number[] {
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high)); power++) found.push(Number(`1e${power}`));
  return found;
}

// Labels of a roofline that lie neither on each other nor, where there is room, on the dots.

export const TOP = 12,
  BOTTOM = 40,
  LETTER = 6.2; // pixels of a letter of a label, about
const LABELLED = 6; // kernels that are named in the plot
const LONGEST = 26; // letters of a name
const LINE = 13; // pixels from one label to the next

type Label = { x: number; y: number; width: number };
type Room = Pick<Frame, "svg" | "width" | "height">;

// Above its line, at the right end or where no dot is in the way.
function peakLabel(left: number, right: number, y: number, width: number, discs: readonly Disc[], taken: Label[]): Label {
  const places = [0, 0.3, 0.6, 1].map((part) => ({ x: right - width - (right - width - left) * part, y: y - 5, width }));
  const free = (label: Label) => !taken.some((other) => overlap(label, other)) && !discs.some((disc) => hits(label, disc));
  const found = places.find(free) ?? places[0];
  while (taken.some((other) => overlap(found, other))) found.y += LINE;
  taken.push(found);
  return found;
}

function overlap(one: Label, other: Label): boolean {
  return Math.abs(one.y - other.y) < LINE && one.x < other.x + other.width && other.x < one.x + one.width;
}

// The kernels of most time by name, where there is room; a line leads to a name that is further away.
export function names(room: Room, dots: readonly Dot[], discs: readonly Disc[], taken: Label[]): SVGElement[] {
  const { svg } = room,
    named = new Set<string>();
  return dots.flatMap(({ kernel: { short } }, at) => {
    const text = cutText(short, LONGEST),
      disc = discs[at];
    const free = (label: Label) =>
      inside(room, label) && !taken.some((other) => overlap(label, other)) && !discs.some((each) => hits(label, each));
    if (named.size === LABELLED || named.has(text)) return [];
    named.add(text);
    const label = beside(disc, text.length * LETTER).find(free);
    if (!label) return [];
    taken.push(label);
    const far = Math.abs(label.y - 4 - disc.y) > 1,
      to = label.x > disc.x ? label.x - 2 : label.x + label.width + 2;
    return [
      far ? makeIn(svg, "path", { class: "leader", d: `M${disc.x} ${disc.y}L${to} ${label.y - 4}` }) : null,
      makeIn(svg, "text", { class: "label name", x: label.x, y: label.y }, text),
    ].filter((each) => each !== null);
  });
}

// Right and left of a dot, then ever further below and above.
function beside({ x, y, r }: Disc, width: number): Label[] {
  return [0, 20, -20, 36, -36, 52, 68, 84, 100].flatMap((down) => {
    const away = r + (down ? 14 : 4);
    return [x + away, x - away - width].map((left) => ({ x: left, y: y + 4 + down, width }));
  });
}

function inside({ width, height }: Room, label: Label): boolean {
  return label.x > LEFT && label.x + label.width < width - RIGHT && label.y > TOP + LINE && label.y < height - BOTTOM;
}

function hits(label: Label, { x, y, r }: Disc): boolean {
  return label.x < x + r && x - r < label.x + label.width && label.y - LINE + 4 < y + r && y - r < label.y + 2;
}

// Kernels of which only the traffic is known, on an axis of their own: what they reach of HBM and L2.

export const STRIP = 150; // pixels high
const HEAD = 30,
  FOOT = 36;

function paintStrip(
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
    xAxis(svg, x, lower, { values: powers(ends), text: rateText }),
    text("memory traffic", { x: (LEFT + width - RIGHT) / 2, y: top + STRIP - 4, "text-anchor": "middle" }),
    text("no FLOP known: traffic alone", { x: LEFT, y: top + 10 }),
    roofs,
    drawn.map(({ shape }) => shape),
    names({ svg, width, height: top + STRIP }, plot.traffic, discs, []),
  ];
  return { nodes, drawn, places: plot.traffic.map((dot, at) => [dot, discs[at]] as const) };
}
