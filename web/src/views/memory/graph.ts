// What every graph of memory has: bytes over an axis, the peak, and a cursor that the pointer and the keys move.

import "./memory.css";
import { scaleLinear } from "d3-scale";
import { type Child, makeIn, replace } from "../../base/dom";
import { bytesText } from "../../base/units";
import { fittingTicks } from "../../core/ticks";
import type { Range } from "../../data/source";
import { type Plot, plot, xAxis, yAxis } from "../page/plotting";

export const LEFT = 64,
  RIGHT = 10,
  TOP = 18,
  BOTTOM = 22;

export type Keys = Record<string, () => unknown>;

export abstract class Graph {
  protected readonly plot: Plot;
  protected width = 0;
  private over: SVGElement | null = null; // what moves without drawing all again

  constructor(
    label: string,
    keys: string,
    protected readonly height: number,
    private readonly peakBytes: number,
  ) {
    this.plot = plot(label, "memory", (svg, width) => this.paint(svg, width));
    const { svg } = this.plot;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", `graph: the arrows read it, ${keys}`);
    svg.addEventListener("keydown", (event) => {
      const moves = event.ctrlKey || event.metaKey || event.altKey ? {} : this.keys(event.shiftKey);
      const move = moves[event.key] ?? moves[event.key.toLowerCase()];
      if (!move) return;
      move();
      event.preventDefault();
      event.stopPropagation(); // the arrows are the timeline's elsewhere
    });
  }

  protected abstract get range(): Range; // of the axis
  protected abstract get most(): [low: number, high: number]; // bytes
  protected abstract get peak(): number; // its place on the axis
  protected abstract keys(fine: boolean): Keys;
  protected abstract shapes(svg: SVGElement): Child[];
  protected abstract marks(svg: SVGElement): Child[]; // over the shapes

  protected tickText(_: number, time: string): string {
    return time;
  }

  protected get room(): number {
    return Math.max(this.width - LEFT - RIGHT, 1);
  }

  protected x(value: number): number {
    const { from, to } = this.range;
    return LEFT + ((value - from) / (to - from)) * this.room;
  }

  protected value(x: number): number {
    const { from, to } = this.range;
    return from + Math.min(Math.max((x - LEFT) / this.room, 0), 1) * (to - from);
  }

  protected get y() {
    return scaleLinear(this.most, [this.height - BOTTOM, TOP]);
  }

  private paint(svg: SVGSVGElement, width: number): void {
    this.width = width;
    const { y, height, peak } = this,
      { from, to } = this.range;
    const ticks = fittingTicks(from, to, width).filter(({ time }) => time >= from && time <= to),
      labels = new Map(ticks.map(({ time, label }) => [time, label]));
    const x = scaleLinear([from, to], [LEFT, width - RIGHT]),
      times = { values: ticks.map(({ time }) => time), text: (value: number) => this.tickText(value, labels.get(value) ?? "") },
      lines = y.ticks(5).map((bytes) => `M${LEFT} ${y(bytes)}H${width - RIGHT}`);
    svg.setAttribute("height", String(height));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.over = makeIn(svg, "g");
    replace(
      svg,
      makeIn(svg, "path", { class: "grid", d: lines.join("") }),
      this.shapes(svg),
      xAxis(svg, x, height - BOTTOM, times),
      yAxis(svg, y, LEFT, { values: y.ticks(5), text: (value) => bytesText(value) }),
      peak >= from && peak <= to ? this.peakMark(svg) : null,
      this.over,
    );
    this.drawOver();
  }

  // A line down from the peak, and its bytes on the side that has more room.
  private peakMark(svg: SVGElement): SVGElement[] {
    const { y, peakBytes } = this,
      at = this.x(this.peak),
      right = at > this.width / 2;
    const place = { x: at + (right ? -8 : 8), y: y(peakBytes) + 4, "text-anchor": right ? "end" : "start" };
    return [
      makeIn(svg, "path", { class: "peak", d: `M${at} ${y(peakBytes)}V${y(0)}` }),
      makeIn(svg, "circle", { class: "peak", cx: at, cy: y(peakBytes), r: 4 }),
      makeIn(svg, "text", { class: "label", ...place }, `peak ${bytesText(peakBytes)}`),
    ];
  }

  protected drawOver(): void {
    if (this.over) replace(this.over, this.marks(this.plot.svg));
  }

  protected cursorMark(value: number): SVGElement | null {
    const at = this.x(value);
    if (at < LEFT || at > this.width - RIGHT) return null;
    return makeIn(this.plot.svg, "path", { class: "cursor", d: `M${at} ${TOP}V${this.height - BOTTOM}` });
  }

  protected stretchMark(left: number, right: number): SVGElement {
    const place = { x: left, y: TOP, width: Math.max(right - left, 1), height: this.height - TOP - BOTTOM };
    return makeIn(this.plot.svg, "rect", { class: "seen", ...place });
  }

  // Between two edges, in steps from pixel to pixel; pieces without height are left out.
  protected area(low: ArrayLike<number>, high: ArrayLike<number>): string {
    const { y } = this,
      parts: string[] = [];
    for (let pixel = 0; pixel < low.length; ) {
      let end = pixel + 1;
      while (end < low.length && low[end] === low[pixel] && high[end] === high[pixel]) end += 1;
      if (high[pixel] > low[pixel]) {
        const top = y(high[pixel]);
        parts.push(`M${LEFT + pixel} ${top.toFixed(2)}h${end - pixel}v${(y(low[pixel]) - top).toFixed(2)}h${pixel - end}z`);
      }
      pixel = end;
    }
    return parts.join("");
  }
}
