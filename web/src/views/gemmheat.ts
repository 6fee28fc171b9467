// The plane of M and N: how near to its roof a matmul of each octave comes; matmuls of a trace are framed.

import { make, nameOf, replace } from "../base/dom";
import type { HeatCell, HeatPlane, MatmulMark, MatmulsOnMap } from "../data/documents";
import { sectionNode } from "./written";

export function showMatmuls(node: HTMLElement, found: MatmulsOnMap | null): void {
  node.hidden = !found;
  if (!found) return;
  const told = { title: "", paragraphs: [], labelled: [], bullets: [], after: "", code: "", left: [0, 2, 4] };
  replace(
    node,
    make("h2", {}, nameOf(`Matmuls on the map of the ${found.device}`)),
    make(
      "p",
      { class: "faint" },
      "Framed cells hold matmuls of this trace. Times of the map are those of the kernel alone, with L2 empty before.",
    ),
    planeNode(found.plane, found.marks),
    sectionNode({ ...told, head: found.head, rows: found.rows }),
  );
}

export function planeNode(plane: HeatPlane, marks: MatmulMark[] = []): HTMLElement {
  const columns = sorted(plane.cells.map((cell) => cell.n));
  const cells = new Map(plane.cells.map((cell) => [`${cell.m} ${cell.n}`, cell]));
  const here = new Map(marks.map((mark) => [`${octave(mark.m)} ${octave(mark.n)}`, mark.text]));
  const heads = (names: string[]) => names.map((name) => make("th", { scope: "col" }, name));
  const row = (m: number) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, `${m}+`),
      columns.map((n) => cellNode(cells.get(`${m} ${n}`), here.get(`${m} ${n}`))),
    );
  const kind = `${plane.dtype} ${plane.layout}, epilogue ${plane.epilogue}, all K together: percent of the roof, medians of octaves`;
  const table = make(
    "table",
    { class: "plane" },
    make("caption", {}, kind),
    make("thead", {}, make("tr", {}, heads(["M \\ N", ...columns.map((n) => `${n}+`)]))),
    make("tbody", {}, sorted(plane.cells.map((cell) => cell.m)).map(row)),
  );
  return make("div", { class: "scroll" }, table);
}

function cellNode(cell?: HeatCell, mark?: string): HTMLElement {
  if (!cell) return make("td", mark ? { class: "marked", title: mark } : {}, mark ? "●" : "");
  const told = `${cell.matmuls} matmuls, ${cell.tflops.toFixed(0)} TFLOP/s, tile ${cell.tile || "unknown"}`;
  const named = { class: mark ? "marked" : null, title: mark ? `${mark}; ${told}` : told };
  const node = make("td", named, nameOf(cell.roof_percent.toFixed(0)));
  const share = Math.max(0, Math.min(100, cell.roof_percent));
  node.style.setProperty("background", `color-mix(in srgb, var(--gemm) ${share.toFixed(0)}%, var(--back))`);
  return node;
}

function octave(size: number): number {
  return 2 ** Math.floor(Math.log2(size));
}

function sorted(values: number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}
