// The roofline of all traces: what each kernel reaches against what the GPU could give. Both axes are logarithmic.

import "./roofline.css";
import { make, nameOf, replace } from "../../base/dom";
import { numberText, percentText, rateText, timeText } from "../../base/units";
import type { Context } from "../../core/context";
import { goToKernel } from "../../core/places";
import { type Dot, joinedDots, type RoofPlot, roofPlots } from "../../core/roofplot";
import { plot, rove } from "../page/plotting";
import { type Drawn, paintRoofline, showJoints } from "./drawing";

export function rooflineTab(context: Context): HTMLElement | null {
  const { traces } = context;
  if (!traces.some(({ entry }) => entry.kernels.length)) return null;
  const kernels = traces.map(({ index, entry }) => ({ index, kernels: entry.kernels, roofs: entry.roofs }));
  const plots = roofPlots(kernels);
  const unknown = traces.filter(({ entry }) => !entry.roofs && entry.kernels.length);
  return make(
    "section",
    { class: "plots" },
    plots.map((each) => onePlot(context, each)),
    plots.length ? null : make("p", {}, "No kernel's traffic is known: record shapes to see them here."),
    unknown.map(({ entry }) => make("p", {}, nameOf(entry.title), ": the GPU is not in the table of devices, so its roofs are not known.")),
  );
}

function onePlot(context: Context, found: RoofPlot): HTMLElement {
  const line = make("p", { class: "plot-line faint" });
  const pairs = joinedDots(found, context.joins);
  let drawn: Drawn[] = [];
  const read = (dot: Dot | undefined) => replace(line, dot ? [nameOf(words(context, dot))] : "Choose a dot to see its kernel.");
  const made = plot(`Roofline of ${found.roofs.device}`, "roofline", (svg, width) => {
    drawn = paintRoofline(svg, width, found, pairs, context, (dot) => words(context, dot));
    const shapes = drawn.map(({ shape }) => shape);
    rove(shapes, 0);
    for (const { dot, shape } of drawn) {
      shape.addEventListener("click", () => goToKernel(context, context.traces[dot.trace], dot.place));
      const point = () => {
        read(dot);
        showJoints(svg, dot);
      };
      shape.addEventListener("pointerenter", point);
      shape.addEventListener("focus", point);
    }
    mark(context, drawn);
  });
  made.svg.addEventListener("keydown", (event) => key(context, event, drawn));
  context.store.on(["selection"], () => mark(context, drawn));
  context.pictures.push({ title: "Roofline", svg: () => made.svg });
  read(undefined);
  return make("div", {}, legend(context, found), made.node, line, notes(context, found));
}

function words({ traces }: Context, { kernel, share, trace, intensity, tflops }: Dot): string {
  const roofs = kernel.roofs.map(({ roof, percent }) => `${numberText(percent)}% of ${roof}`).join(", ");
  const whose = traces.length > 1 ? `${traces[trace].entry.title}: ` : "";
  const work = tflops ? `${figure(tflops)} TFLOP/s, ${figure(intensity)} FLOP per byte, ` : "";
  return (
    `${whose}${kernel.short}: ${percentText(share)} of kernel time, ${work}` +
    `${rateText(kernel.gbps)}, median ${timeText(kernel.median_ns)}` +
    `${roofs ? `; ${roofs}` : ""}${kernel.limited_by ? `; ${kernel.limited_by}` : ""}`
  );
}

// Kernels that compute little have rates far below one.
function figure(value: number): string {
  return value < 0.1 ? value.toPrecision(2) : numberText(value, value < 10 ? 2 : 0);
}

function mark({ store }: Context, drawn: readonly Drawn[]): void {
  const { selection } = store.state;
  for (const { dot, shape } of drawn) {
    const chosen = selection?.kind === "event" && selection.trace === dot.trace && selection.event === dot.kernel.first;
    shape.classList.toggle("chosen", chosen);
  }
}

function key(context: Context, event: KeyboardEvent, drawn: readonly Drawn[]): void {
  const shapes = drawn.map(({ shape }) => shape),
    at = shapes.indexOf(document.activeElement as SVGElement);
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") goToKernel(context, context.traces[drawn[at].dot.trace], drawn[at].dot.place);
  else if (step) {
    const next = Math.min(Math.max(at + step, 0), shapes.length - 1);
    rove(shapes, next);
    shapes[next].focus();
  } else return;
  event.preventDefault();
  event.stopPropagation(); // the arrows are the timeline's elsewhere
}

function legend({ traces, colours }: Context, { dots, traffic }: RoofPlot): HTMLElement {
  const roles = [...new Set([...dots, ...traffic].map(({ kernel }) => kernel.role))];
  const marks = roles.map((role) => {
    const swatch = make("span", { class: "key" });
    swatch.style.background = colours.of(role);
    return make("li", {}, swatch, role);
  });
  const shapes = ["circles", "squares", "triangles"];
  const whose = traces.length > 1 ? traces.map(({ entry, index }) => make("li", {}, `${shapes[index % 3]}: `, nameOf(entry.title))) : [];
  return make("ul", { class: "keys" }, marks, whose);
}

function notes({ traces }: Context, found: RoofPlot): HTMLElement[] {
  const left = found.missing
    .filter(({ count }) => count)
    .map(({ trace, count, share }) => {
      const whose = traces.length > 1 ? `${traces[trace].entry.title}: ` : "";
      const kernels = `${count === 1 ? "1 kernel" : `${count} kernels`} by name and shapes`;
      return `${whose}${kernels} (${percentText(share)} of kernel time) without known traffic: not drawn.`;
    });
  const untold = found.dots.filter(({ kernel }) => !kernel.precision).length;
  const precision = untold ? ` Of ${untold} kernels it is not known which peak counts.` : "";
  const { l2_gbps: l2, device, measured, source: named } = found.roofs;
  const slopes = l2
    ? "A kernel between the two slopes found part of its bytes in L2."
    : "The rate of L2 is not known: foretrace lab roofs measures it.";
  const source = measured ? `as measured: ${named}; a peak that was not measured is the datasheet's` : `dense peaks: ${named}`;
  const about = `The size of a dot is its share of kernel time. ${slopes} Roofs of ${device}, ${source}.${precision}`;
  return [about, ...left].map((text) => make("p", { class: "faint" }, text));
}
