import assert from "node:assert/strict";
import { test } from "node:test";
import type { Joins } from "../src/core/joins";
import { joinedDots, type RoofPlot, roofPlots, uncrossed } from "../src/core/roofplot";
import type { PageKernel, RoofsEntry } from "../src/data/documents";

const ROOFS: RoofsEntry = {
  device: "NVIDIA H200",
  hbm_gbps: 4700,
  l2_gbps: 9400,
  l2_bytes: null,
  tflops: { bf16: 894, fp16: 894, tf32: 400, fp32: 67, fp64: 34 },
  source: "measured",
  measured: true,
  datasheet: ["fp32"],
};

function kernel(flops: number | null, bytes: number | null, ns: number, precision: string): PageKernel {
  const tflops = flops === null ? null : flops / ns / 1e3;
  return { flops, bytes, tflops, gbps: bytes === null ? null : bytes / ns, total_ns: ns, precision } as PageKernel;
}

const KERNELS = [
  kernel(1e12, 1e9, 2e6, "bf16"),
  kernel(1e3, 1e6, 1e3, "fp32"), // far below all roofs
  kernel(1e9, 8e8, 3e5, "fp64"),
  kernel(null, 1e6, 1e6, ""),
  kernel(5, null, 1e3, "fp16"),
];

function plotOf(...traces: PageKernel[][]): RoofPlot {
  const [plot] = roofPlots(traces.map((kernels, index) => ({ index, kernels, roofs: ROOFS })));
  return plot;
}

test("every kernel is a dot or is counted as missing", () => {
  const plot = plotOf(KERNELS);
  assert.deepEqual(plot.dots.map(({ place }) => place).sort(), [0, 1, 2]);
  assert.deepEqual(
    plot.traffic.map(({ place }) => place),
    [3],
    "bytes and no FLOP: below the roofline",
  );
  assert.deepEqual(
    plot.missing.map(({ count }) => count),
    [1],
  );
  const whole = KERNELS.reduce((sum, { total_ns }) => sum + (total_ns ?? 0), 0);
  assert.ok(Math.abs(plot.missing[0].share - 1e3 / whole) < 1e-9);
  assert.deepEqual(
    plot.dots.map(({ share }) => share),
    plot.dots.map(({ share }) => share).sort((a, b) => b - a),
  );
});

test("the peaks of all precisions used, those that are equal once", () => {
  const names = (plot: RoofPlot) => plot.flats.map((flat) => flat.names.join());
  assert.deepEqual(names(plotOf(KERNELS)), ["bf16", "fp32", "fp64"]);
  const printed = plotOf(KERNELS).flats.filter((flat) => flat.printed);
  assert.deepEqual(printed[0].names, ["fp32"], "not measured: it says so");
  assert.deepEqual(names(plotOf([...KERNELS, kernel(1e9, 1e6, 1e5, "fp16")])), ["bf16,fp16", "fp32", "fp64"]);
  assert.deepEqual(names(plotOf([kernel(1e9, 1e6, 1e5, "")])), ["bf16,fp16", "tf32", "fp32", "fp64"], "none known: all");
});

test("nothing lies outside the axes", () => {
  for (const kernels of [KERNELS, KERNELS.slice(1, 2), [kernel(1e15, 1, 1.2e6, "fp64")], [kernel(1, 1e9, 1e9, "bf16")]]) {
    const plot = plotOf(kernels);
    const within = (x: number, y: number) =>
      assert.ok(x >= plot.x[0] * 0.999 && x <= plot.x[1] * 1.001 && y >= plot.y[0] * 0.999 && y <= plot.y[1] * 1.001, `${x} ${y}`);
    for (const { intensity, tflops } of plot.dots) within(intensity, tflops);
    const lines = [
      ...plot.flats.map((flat) => plot.flatLine(flat, plot.x)),
      ...plot.slopes.map((slope) => plot.slopeLine(slope, plot.x, plot.y)),
    ];
    for (const line of lines) {
      if (!line) continue;
      within(line[0], line[1]);
      within(line[2], line[3]);
    }
    assert.ok(plot.flatLine(plot.flats[0], plot.x), "the highest peak is always seen");
  }
});

test("one plot for each kind of GPU, none where the roofs are not known", () => {
  const other = { ...ROOFS, device: "NVIDIA A100" };
  const traces = [ROOFS, other, null, ROOFS].map((roofs, index) => ({ index, kernels: KERNELS, roofs }));
  const plots = roofPlots(traces);
  assert.deepEqual(
    plots.map(({ roofs, traces: own }) => [roofs.device, own.map(({ index }) => index)]),
    [
      ["NVIDIA H200", [0, 3]],
      ["NVIDIA A100", [1]],
    ],
  );
  assert.deepEqual(roofPlots([{ index: 0, kernels: [], roofs: ROOFS }]), []);
});

test("kernels in one place of two traces are joined once", () => {
  const plot = plotOf(KERNELS, KERNELS);
  const place = (a: number[], b: number[]) => ({ change: 0, sides: [{ cases: a }, { cases: b }] });
  const joins = [
    { pair: { a: 0, b: 1 }, places: [place([0], [0]), place([0], [0]), place([2, 3], [1]), place([4], [-1])] },
  ] as unknown as Joins[];
  assert.deepEqual(
    joinedDots(plot, joins).map(([from, to]) => [from.trace, from.place, to.trace, to.place]),
    [
      [0, 0, 1, 0],
      [0, 2, 1, 1],
      [0, 3, 1, 1],
    ],
  );
});

test("lines between pairs do not cross, those of most time are drawn first", () => {
  const at = (x: number, y: number) => ({ x, y });
  const lines = [
    [at(0, 0), at(10, 10)],
    [at(0, 10), at(10, 0)], // crosses the first
    [at(0, 0), at(10, 0)], // shares an end
    [at(20, 0), at(20, 10)],
  ] as const;
  assert.deepEqual(uncrossed(lines), [0, 2, 3]);
});
