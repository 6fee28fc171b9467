// The roofline: what each kernel reaches against what the GPU could give. Both axes are logarithmic.

import { make, makeIn, replace } from "./dom.js";
import { numberText, timeText } from "./units.js";

const WIDTH = 720, HEIGHT = 380, LEFT = 64, BOTTOM = 40, TOP = 14, RIGHT = 14;

export function drawRoofline(svg, note, facts, onKernel) {
  const { roofs } = facts;
  const points = facts.kernels.filter((kernel) => kernel.flops && kernel.bytes && kernel.median_ns);
  if (!roofs || !points.length) {
    svg.remove();
    return replace(note, roofs ? "No kernel's work and traffic are known: record shapes to see them here." :
      "The GPU is not in the table of devices, so its roofs are not known.");
  }
  const scale = makeScale(points, roofs);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  replace(svg, ...axes(svg, scale), ...roofLines(svg, scale, roofs),
    ...points.map((kernel) => point(svg, scale, kernel, onKernel)));
  return replace(note, `${roofs.name}: ${numberText(roofs.bytes_per_s / 1e12, 2)} TB/s and the dense peaks shown (${roofs.source}). `,
    make("span", {}, "Circles are matrix products, squares everything else; the size is the share of kernel time."));
}

function makeScale(points, roofs) {
  const intensity = points.map((kernel) => kernel.flops / kernel.bytes);
  const rate = points.map((kernel) => kernel.tflops);
  const top = Math.max(...Object.values(roofs.peaks)) / 1e12;
  const x = span([...intensity, 1, (top * 1e12) / roofs.bytes_per_s]), y = span([...rate, top]);
  const place = ([low, high], value, from, to) => from + ((Math.log10(value) - low) / (high - low)) * (to - from);
  return {
    xs: x, ys: y, total: points.reduce((sum, kernel) => sum + kernel.total_ns, 0),
    x: (value) => place(x, value, LEFT, WIDTH - RIGHT),
    y: (value) => place(y, value, HEIGHT - BOTTOM, TOP),
  };
}

// Whole powers of ten around the values.
function span(values) {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  return [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 0.05)];
}

function axes(svg, scale) {
  const lines = [];
  const text = (words, attributes) => makeIn(svg, "text", { class: "axis", ...attributes }, words);
  for (let power = scale.xs[0]; power <= scale.xs[1]; power++) {
    const x = scale.x(10 ** power);
    lines.push(makeIn(svg, "path", { class: "grid", d: `M${x} ${TOP}V${HEIGHT - BOTTOM}` }));
    lines.push(text(numberText(10 ** power, 6), { x, y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }));
  }
  for (let power = scale.ys[0]; power <= scale.ys[1]; power++) {
    const y = scale.y(10 ** power);
    lines.push(makeIn(svg, "path", { class: "grid", d: `M${LEFT} ${y}H${WIDTH - RIGHT}` }));
    lines.push(text(numberText(10 ** power, 6), { x: LEFT - 6, y: y + 4, "text-anchor": "end" }));
  }
  lines.push(text("FLOP per byte", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }));
  lines.push(text("TFLOP/s", { x: 6, y: TOP }));
  return lines;
}

function roofLines(svg, scale, roofs) {
  const bandwidth = roofs.bytes_per_s / 1e12;
  const distinct = new Map(Object.entries(roofs.peaks).map(([type, peak]) => [peak / 1e12, type]));
  const [low, high] = scale.xs.map((power) => 10 ** power);
  const highest = Math.max(...distinct.keys());
  const line = (d, title) => makeIn(svg, "path", { class: "roof", d }, makeIn(svg, "title", {}, title));
  const slope = line(`M${scale.x(low)} ${scale.y(Math.max(low * bandwidth, 10 ** scale.ys[0]))}` +
    `L${scale.x(highest / bandwidth)} ${scale.y(highest)}`, "bandwidth");
  const start = scale.y(low * bandwidth) > HEIGHT - BOTTOM ? 10 ** scale.ys[0] / bandwidth : low;
  slope.setAttribute("d", `M${scale.x(start)} ${scale.y(start * bandwidth)}L${scale.x(highest / bandwidth)} ${scale.y(highest)}`);
  const flats = [...distinct].flatMap(([peak, type]) => [
    line(`M${scale.x(peak / bandwidth)} ${scale.y(peak)}H${scale.x(high)}`, type),
    makeIn(svg, "text", { class: "axis", x: WIDTH - RIGHT - 4, y: scale.y(peak) - 4, "text-anchor": "end" },
      `${type} ${numberText(peak)}`),
  ]);
  return [slope, ...flats];
}

function point(svg, scale, kernel, onKernel) {
  const x = scale.x(kernel.flops / kernel.bytes), y = scale.y(kernel.tflops);
  const size = 3 + 12 * Math.sqrt(kernel.total_ns / scale.total);
  const words = `${kernel.short}: ${numberText(kernel.tflops, 1)} TFLOP/s, ${numberText(kernel.gbps)} GB/s, ` +
    `median ${timeText(kernel.median_ns)}, bound by ${kernel.bound}`;
  const role = { class: `point ${kernel.role}`, tabindex: 0, role: "button", "aria-label": words };
  const title = makeIn(svg, "title", {}, words);
  const shape = kernel.role === "gemm"
    ? makeIn(svg, "circle", { cx: x, cy: y, r: size, ...role }, title)
    : makeIn(svg, "rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...role }, title);
  shape.addEventListener("click", () => onKernel(kernel));
  shape.addEventListener("keydown", (event) => { if (event.key === "Enter") onKernel(kernel); });
  return shape;
}
