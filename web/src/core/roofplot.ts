// What the roofline draws: a dot for each kernel by case whose work and traffic are known, the roofs of the precisions that they
// use, and axes that hold all of it; below, kernels that only move bytes. Rates are TFLOP/s and TB/s, the x axis is FLOP per byte.

import { grouped } from "../data/columns";
import type { PageKernel, RoofsEntry } from "../data/documents";
import type { Joins } from "./joins";

export interface Dot {
  trace: number;
  place: number; // in the kernels of its trace
  kernel: PageKernel;
  intensity: number;
  tflops: number;
  share: number; // of the kernel time of its trace
}

interface Flat {
  names: string[]; // precisions that have this peak
  tflops: number;
  printed: boolean; // in the datasheet: beside measured ones such a peak says so
}

type Slope = { name: string; rate: number }; // HBM or L2, in TB/s

export type Domain = [low: number, high: number];
export type Line = [x1: number, y1: number, x2: number, y2: number];

export interface Kernels {
  index: number;
  kernels: readonly PageKernel[];
  roofs: RoofsEntry | null;
}

export class RoofPlot {
  readonly dots: Dot[]; // the largest first, so that small ones lie above
  readonly traffic: Dot[]; // kernels of which the traffic is known and no FLOP: copies, the optimizer
  readonly flats: Flat[];
  readonly slopes: Slope[];
  readonly missing: { trace: number; count: number; share: number }[]; // what is not drawn: kernels whose traffic is not told
  readonly x: Domain;
  readonly y: Domain;
  readonly gbps: Domain; // of `traffic`

  // Of traces that were recorded on one kind of GPU.
  constructor(
    readonly roofs: RoofsEntry,
    readonly traces: readonly Kernels[],
  ) {
    const every = traces.flatMap(dotsOf).sort((a, b) => b.share - a.share);
    this.dots = every.filter(({ tflops }) => tflops > 0);
    this.traffic = every.filter(({ tflops }) => !tflops);
    this.missing = traces.map(({ index, kernels }) => {
      const own = every.filter(({ trace }) => trace === index),
        share = timeOf(kernels) ? 1 - own.reduce((sum, each) => sum + each.share, 0) : 0;
      return { trace: index, count: kernels.length - own.length, share: Math.max(share, 0) };
    });
    this.flats = flatsOf(roofs, new Set(this.dots.map(({ kernel }) => kernel.precision)));
    this.slopes = [{ name: "HBM", rate: roofs.hbm_gbps / 1e3 }];
    if (roofs.l2_gbps) this.slopes.push({ name: "L2", rate: roofs.l2_gbps / 1e3 });
    const peaks = this.flats.map(({ tflops }) => tflops),
      highest = Math.max(...peaks);
    this.x = around([...this.dots.map(({ intensity }) => intensity), highest / this.slopes[0].rate]);
    this.y = around([...this.dots.map(({ tflops }) => tflops), ...peaks]);
    this.gbps = around([...this.traffic.map(({ kernel }) => kernel.gbps ?? 0), ...this.slopes.map(({ rate }) => rate * 1e3)]);
  }

  get largest(): number {
    return Math.max(this.dots[0]?.share ?? 0, this.traffic[0]?.share ?? 0) || 1;
  }

  // The part of a slope within these axes, up to the highest peak; null where there is none.
  slopeLine({ rate }: Slope, x: Domain, y: Domain): Line | null {
    const top = Math.min(Math.max(...this.flats.map(({ tflops }) => tflops)), y[1]);
    const from = Math.max(x[0], y[0] / rate),
      to = Math.min(x[1], top / rate);
    return from < to ? [from, from * rate, to, to * rate] : null;
  }

  // A peak begins where the fastest slope reaches it.
  flatLine({ tflops }: Flat, x: Domain): Line | null {
    const from = Math.max(x[0], tflops / Math.max(...this.slopes.map(({ rate }) => rate)));
    return from < x[1] ? [from, tflops, x[1], tflops] : null;
  }
}

export function roofPlots(traces: readonly Kernels[]): RoofPlot[] {
  const devices = grouped(
    traces.filter(({ roofs }) => roofs),
    ({ roofs }) => roofs?.device,
  );
  const plots = [...devices.values()].map((own) => new RoofPlot(own[0].roofs as RoofsEntry, own));
  return plots.filter(({ dots, traffic }) => dots.length + traffic.length);
}

// Pairs of dots that do the same work in two traces, one below the other on the page.
export function joinedDots(plot: RoofPlot, joins: readonly Joins[]): [Dot, Dot][] {
  const dot = new Map([...plot.dots, ...plot.traffic].map((each) => [`${each.trace} ${each.place}`, each])),
    found = new Map<string, [Dot, Dot]>();
  for (const { pair, places } of joins) {
    if (pair.b !== pair.a + 1) continue;
    for (const { sides } of places) {
      const [ones, others] = sides.map((side) => [...new Set(side?.cases ?? [])]);
      for (const [one, other] of inOrder(ones, others)) {
        const [from, to] = [dot.get(`${pair.a} ${one}`), dot.get(`${pair.b} ${other}`)];
        if (from && to) found.set(`${pair.a} ${one} ${other}`, [from, to]);
      }
    }
  }
  return [...found.values()].sort(([, one], [, other]) => other.share - one.share);
}

// Kernels of one place in order of launch: the first with the first, and those of the longer side that are left with the last.
function inOrder(ones: readonly number[], others: readonly number[]): [number, number][] {
  if (!ones.length || !others.length) return [];
  const longer = Math.max(ones.length, others.length);
  return Array.from({ length: longer }, (_, at) => [ones[Math.min(at, ones.length - 1)], others[Math.min(at, others.length - 1)]]);
}

type Ends = { x: number; y: number };

// Which lines can be drawn so that no two cross, those of most time first: places in `lines`.
export function uncrossed(lines: readonly (readonly [Ends, Ends])[]): number[] {
  const kept: number[] = [];
  lines.forEach((line, at) => {
    if (!kept.some((other) => cross(line, lines[other]))) kept.push(at);
  });
  return kept;
}

// Lines that only share an end do not cross.
function cross([a, b]: readonly [Ends, Ends], [c, d]: readonly [Ends, Ends]): boolean {
  const side = (p: Ends, q: Ends, r: Ends) => Math.sign((q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x));
  return side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
}

function dotsOf({ index, kernels }: Kernels): Dot[] {
  const total = timeOf(kernels);
  return kernels.flatMap((kernel, place) => {
    const { flops, bytes, tflops, gbps, total_ns } = kernel;
    const share = total ? (total_ns ?? 0) / total : 0;
    if (flops && bytes && tflops) return [{ trace: index, place, kernel, intensity: flops / bytes, tflops, share }];
    return bytes && gbps && !flops ? [{ trace: index, place, kernel, intensity: 0, tflops: 0, share }] : [];
  });
}

function timeOf(kernels: readonly PageKernel[]): number {
  return kernels.reduce((sum, { total_ns }) => sum + (total_ns ?? 0), 0);
}

// Where no precision is known, all peaks are drawn.
function flatsOf({ tflops: peaks, measured, datasheet }: RoofsEntry, used: ReadonlySet<string>): Flat[] {
  const names = Object.keys(peaks).filter((name) => used.has(name)),
    flats = grouped(names.length ? names : Object.keys(peaks), (name) => peaks[name]);
  const flat = (tflops: number, own: string[]) => ({ names: own, tflops, printed: measured && datasheet.includes(own[0]) });
  return Array.from(flats, ([tflops, own]) => flat(tflops, own)).sort((a, b) => b.tflops - a.tflops);
}

// Two decades at least, and some room around the values.
function around(values: number[]): Domain {
  const low = Math.min(...values) / 1.6,
    high = Math.max(...values) * 1.6;
  const more = Math.max(1, Math.sqrt((100 * low) / high));
  return [low / more, high * more];
}
