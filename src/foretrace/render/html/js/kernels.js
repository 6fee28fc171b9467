// The kernel table of one trace.

import { make, nameOf, replace } from "./dom.js";
import { Table } from "./table.js";
import { bytesText, flopsText, numberText, timeText } from "./units.js";

export function kernelTable(facts, onKernel) {
  const shape = (row) => facts.shapes.get(row.shape)?.dims ?? "–";
  const text = (title, value, more = {}) => ({ title, name: true, value, text: value, ...more });
  const number = (title, value, show) => ({ title, value, text: (row) => show(value(row)) });
  const source = (row) => facts.origins.every[facts.origins.of[row.first]]?.lines.map(([place]) => place).join(", ") || "–";
  return new Table([
    text("kernel", (row) => row.short, { title_of: (row) => facts.names[row.name] }),
    text("role", (row) => row.role),
    text("op", (row) => row.ops.join(", ") || "–", { title_of: (row) => row.chain.join(" > ") }),
    ...(facts.origins.every.length ? [text("source", source)] : []),
    text("sizes", shape),
    number("launches", (row) => row.count, numberText),
    number("per step", (row) => row.per_step, (value) => numberText(value, 2)),
    number("total", (row) => row.total_ns, timeText),
    number("median", (row) => row.median_ns, timeText),
    number("work", (row) => row.flops, flopsText),
    number("traffic", (row) => row.bytes, bytesText),
    number("TFLOP/s", (row) => row.tflops, (value) => numberText(value, 1)),
    number("GB/s", (row) => row.gbps, numberText),
    text("bound", (row) => row.bound),
  ], facts.kernels, { caption: `Kernels of ${facts.title}, by name and sizes`, onRow: onKernel, sortBy: facts.origins.every.length ? 7 : 6 });
}

export function kernelSection(table) {
  const filter = make("input", { type: "search", placeholder: "filter kernels", "aria-label": "Filter kernels" });
  filter.addEventListener("input", () => table.filter(filter.value));
  return make("div", { class: "kernels" }, filter, table.node);
}

export function searchResults(node, facts, counts, select) {
  const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8);
  replace(node, ...rows.map(([number, count]) => {
    const line = make("button", { type: "button", class: "link" }, nameOf(facts.decoded.get(number)?.short || facts.names[number]), ` ×${count}`);
    line.addEventListener("click", () => select(number));
    return make("li", {}, line);
  }));
}
