// Bandwidth and latency by working set: where a cache ends, the curve bends.

import "./roofcurve.css";
import { scaleLinear, scaleLog } from "d3-scale";
import { make, makeIn, replace } from "../../base/dom";
import { bytesText, timeText } from "../../base/units";
import type { RoofsPage } from "../../data/documents";
import { plot, xAxis, yAxis } from "../page/plotting";

const LEFT = 64,
  RIGHT = 14,
  TOP = 10,
  BOTTOM = 24,
  HEIGHT = 240,
  PER_LABEL = 90; // pixels

interface Curve {
  name: string;
  points: [bytes: number, value: number][];
}

export function curveNodes(page: RoofsPage): HTMLElement[] {
  const rates = (["read", "write", "copy"] as const).map((name) => ({
    name,
    points: known(page.bandwidth.map((point) => [point.working_set_bytes, point[`${name}_gbps`]])),
  }));
  const loads = { name: "load", points: known(page.latency.map((point) => [point.working_set_bytes, point.load_ns])) };
  return [
    ...figure("Bandwidth by working set", rates, (gbps) => `${bytesText(gbps * 1e9)}/s`),
    ...figure("Latency of a load by working set", [loads], (ns) => timeText(ns)),
  ];
}

function known(points: [number, number | null | undefined][]): [number, number][] {
  return points.filter((point): point is [number, number] => typeof point[1] === "number");
}

function figure(title: string, curves: Curve[], text: (value: number) => string): HTMLElement[] {
  const drawn = curves.filter((curve) => curve.points.length > 1);
  if (!drawn.length) return [];
  const names = drawn.map(({ name }) => make("li", {}, make("span", { class: `curve-key curve-${name}` }), name));
  const { node } = plot(`${title}: the table below has the figures`, "curve", (svg, width) => paint(svg, width, drawn, text));
  return [make("figure", {}, make("figcaption", {}, title), drawn.length > 1 ? make("ul", { class: "curve-keys" }, names) : null, node)];
}

function paint(svg: SVGSVGElement, width: number, curves: Curve[], text: (value: number) => string): void {
  svg.setAttribute("height", `${HEIGHT}`);
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const points = curves.flatMap((curve) => curve.points);
  const sizes = points.map(([size]) => size);
  const first = Math.min(...sizes),
    last = Math.max(...sizes);
  const x = scaleLog([first, last], [LEFT, width - RIGHT]).base(2);
  const y = scaleLinear([0, Math.max(...points.map(([, value]) => value))], [HEIGHT - BOTTOM, TOP]).nice(5);
  const octaves = Math.log2(last / first);
  const step = Math.max(1, Math.ceil((octaves * PER_LABEL) / Math.max(1, width - LEFT - RIGHT)));
  const values = Array.from({ length: Math.floor(octaves / step) + 1 }, (_, place) => first * 2 ** (place * step));
  const place = ([size, value]: [number, number]) => [x(size).toFixed(1), y(value).toFixed(1)] as const;
  replace(
    svg,
    xAxis(svg, x, HEIGHT - BOTTOM, { values, text: bytesText }),
    yAxis(svg, y, LEFT, { values: y.ticks(5), text }),
    curves.map(({ name, points }) => [
      makeIn(svg, "path", { class: `curve-line curve-${name}`, d: `M${points.map((point) => place(point).join(" ")).join("L")}` }),
      points.map((point) => {
        const [cx, cy] = place(point);
        const told = makeIn(svg, "title", {}, `${name} of ${bytesText(point[0])}: ${text(point[1])}`);
        return makeIn(svg, "circle", { class: `curve-dot curve-${name}`, cx, cy, r: 3 }, told);
      }),
    ]),
  );
}
