// What plots share: an <svg> that is drawn at the width it has, axes, and a choice between a few.

import "./plotting.css";
import { type AxisScale, axisBottom, axisLeft } from "d3-axis";
import { select } from "d3-selection";
import { make, makeIn, shapeOf } from "../../base/dom";

export interface Plot {
  node: HTMLElement;
  svg: SVGSVGElement;
  draw: () => void; // again, at the width it has
}

// `paint` draws whenever the width changes; a tab that is not open has none.
export function plot(label: string, kind: string, paint: (svg: SVGSVGElement, width: number) => void): Plot {
  const svg = shapeOf("roofline-shape");
  svg.setAttribute("class", `plot ${kind}`);
  svg.setAttribute("aria-label", label);
  const node = make("div", { class: `plot-room ${kind}-room` }, svg);
  const draw = () => {
    const width = Math.floor(node.clientWidth);
    if (width > 0) paint(svg, width);
  };
  let known = 0;
  new ResizeObserver(() => {
    if (node.clientWidth !== known) {
      known = node.clientWidth;
      draw();
    }
  }).observe(node);
  return { node, svg, draw };
}

type Ticks<Domain> = { values: Domain[]; text: (value: Domain) => string };

export function xAxis<Domain extends number>(svg: SVGElement, scale: AxisScale<Domain>, y: number, ticks: Ticks<Domain>): SVGElement {
  const node = makeIn(svg, "g", { class: "axis", transform: `translate(0 ${y})` });
  select(node as SVGGElement).call(axisBottom(scale).tickValues(ticks.values).tickFormat(ticks.text).tickSizeOuter(0));
  return node;
}

export function yAxis<Domain extends number>(svg: SVGElement, scale: AxisScale<Domain>, x: number, ticks: Ticks<Domain>): SVGElement {
  const node = makeIn(svg, "g", { class: "axis", transform: `translate(${x} 0)` });
  select(node as SVGGElement).call(axisLeft(scale).tickValues(ticks.values).tickFormat(ticks.text).tickSizeOuter(0));
  return node;
}

let made = 0;

// Radio buttons in a row; one choice alone is none.
export function choice(
  legend: string,
  choices: { value: string; text: string }[],
  chosen: string,
  onChoice: (value: string) => void,
): HTMLElement | null {
  if (choices.length < 2) return null;
  made += 1;
  const buttons = choices.map(({ value, text }) => {
    const input = make("input", { type: "radio", name: `choice-${made}`, value, checked: value === chosen ? "" : null });
    input.addEventListener("change", () => onChoice(value));
    return make("label", {}, input, text);
  });
  return make("fieldset", { class: "switch" }, make("legend", {}, legend), buttons);
}

// One stop for the Tab key among many shapes: the arrows go from one to the next.
export function rove(shapes: SVGElement[], at: number): void {
  shapes.forEach((shape, place) => {
    shape.setAttribute("tabindex", place === at ? "0" : "-1");
  });
}
