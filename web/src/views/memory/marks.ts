// What every graph of memory has: lines at round numbers, and the peak.

import "./memory.css";
import { makeIn } from "../../base/dom";
import { bytesText } from "../../base/units";

export type Y = (value: number) => number;

export function gridLines(svg: SVGElement, heights: number[], left: number, right: number): SVGElement {
  return makeIn(svg, "path", { class: "grid", d: heights.map((height) => `M${left} ${height}H${right}`).join("") });
}

// A line down from the peak, and its bytes on the side that has more room.
export function peakMark(svg: SVGElement, bytes: number, at: number, y: Y, width: number): SVGElement[] {
  const right = at > width / 2,
    place = { x: at + (right ? -8 : 8), y: y(bytes) + 4, "text-anchor": right ? "end" : "start" };
  return [
    makeIn(svg, "path", { class: "peak", d: `M${at} ${y(bytes)}V${y(0)}` }),
    makeIn(svg, "circle", { class: "peak", cx: at, cy: y(bytes), r: 4 }),
    makeIn(svg, "text", { class: "label", ...place }, `peak ${bytesText(bytes)}`),
  ];
}
