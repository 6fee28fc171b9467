// A flame graph as a tree of boxes: own time by pass, and the time of all that is inside.

import { EVERY, layerOf } from "../base/frames";
import { type Columns, unpack } from "../data/columns";
import type { Flame, FlameTree } from "../data/documents";
import type { Shown } from "./context";

export interface Box {
  number: number;
  name: string;
  kind: string; // module, range, pass, op, call, kernel; `all` for the outermost
  depth: number;
  above: Box | null;
  parts: Box[];
  own: number[]; // ns by pass
  count: number; // layers that stand together in it
}

const SEPARATOR = " > ";

export class Boxes {
  readonly root: Box;
  readonly all: Box[]; // a part comes after what it is in
  readonly passes: string[];

  // `before` the name of a pass is that of the columns: of the recording, or per step.
  constructor(columns: Columns, flame: Pick<Flame, "names" | "kinds" | "passes">, before = "") {
    this.passes = flame.passes;
    this.root = { number: -1, name: "all", kind: "all", depth: 0, above: null, parts: [], own: flame.passes.map(() => 0), count: 1 };
    this.all = [];
    for (let number = 0; number < columns.above.length; number++) {
      const above = columns.above[number] < 0 ? this.root : this.all[columns.above[number]];
      const own = flame.passes.map((pass) => columns[before + pass][number]);
      const name = flame.names[columns.name[number]],
        kind = flame.kinds[columns.kind[number]];
      const box: Box = { number, name, kind, depth: above.depth + 1, above, parts: [], own, count: columns.count?.[number] ?? 1 };
      above.parts.push(box);
      this.all.push(box);
    }
  }

  // The time of each box with all that is inside, in one pass or in all (-1). That of the outermost is at the end.
  totals(pass: number): Float64Array {
    const totals = new Float64Array(this.all.length + 1);
    for (let at = this.all.length - 1; at >= 0; at--) {
      const { own, above } = this.all[at];
      totals[at] += pass < 0 ? own.reduce((sum, ns) => sum + ns, 0) : own[pass];
      totals[above && above !== this.root ? above.number : this.all.length] += totals[at];
    }
    return totals;
  }

  timeIn(box: Box, pass: number): number {
    return box.own[pass] + box.parts.reduce((sum, part) => sum + this.timeIn(part, pass), 0);
  }

  passesWithTime(): number[] {
    return this.passes.map((_, pass) => pass).filter((pass) => this.all.some(({ own }) => own[pass] > 0));
  }

  // The box of a path, or null. Names may hold the separator: the longest that fits is taken.
  find(path: string): Box | null {
    let box = this.root;
    let rest = isPath(path) ? ` ${path}` : "";
    while (rest) {
      const fits = box.parts.filter(({ name }) => rest === SEPARATOR + name || rest.startsWith(SEPARATOR + name + SEPARATOR));
      if (!fits.length) return null;
      box = fits.reduce((best, each) => (each.name.length > best.name.length ? each : best));
      rest = rest.slice(SEPARATOR.length + box.name.length);
    }
    return box === this.root ? null : box;
  }

  // The boxes of a path in which a layer may stand for all of its kind: `> Block_* > aten::mm`.
  findAll(path: string): Box[] {
    const search = (box: Box, rest: string): Box[] => {
      if (!rest) return box === this.root ? [] : [box];
      return box.parts.flatMap((part) => {
        const said = [...new Set([part.name, isLayer(part) ? layerOf(part.name) : part.name])].map((name) => SEPARATOR + name);
        const fits = said.find((each) => rest === each || rest.startsWith(each + SEPARATOR));
        return fits ? search(part, rest.slice(fits.length)) : [];
      });
    };
    return search(this.root, isPath(path) ? ` ${path}` : "");
  }

  // The outermost boxes of a function: one inside another is in its time already.
  named(name: string): Box[] {
    return this.all.filter((box) => pathTo(box).findIndex((each) => isNamed(each, name)) === box.depth - 1);
  }

  inside(box: Box): Set<number> {
    const found = new Set([box.number]);
    for (const part of box.parts) for (const each of this.inside(part)) found.add(each);
    return found;
  }
}

function isLayer({ kind }: Pick<Box, "kind">): boolean {
  return kind === "module" || kind === "range";
}

type Named = Pick<Box, "name" | "kind" | "count">;

// `Block_*` stands for each of its layers.
function isNamed(box: Named, name: string): boolean {
  return box.name === name || (isLayer(box) && layerOf(box.name) === name);
}

// Other boxes for the same time: each stack in the place that `path` gives it, outermost first.
function regrown(boxes: Boxes, path: (box: Box) => Named[]): Boxes {
  const numbers = new Map<string, number>(),
    made: (Named & { above: number; own: number[]; from: Set<string> })[] = [];
  const names: string[] = [],
    kinds: string[] = [];
  for (const box of boxes.all.filter(({ own }) => own.some((ns) => ns > 0))) {
    const way = path(box);
    if (!way.length) continue;
    let above = -1;
    for (const each of way) {
      const key = JSON.stringify([above, each.kind, isLayer(each) ? layerOf(each.name) : each.name]);
      const at =
        numbers.get(key) ??
        made.push({ name: each.name, kind: each.kind, count: each.count, above, own: boxes.passes.map(() => 0), from: new Set() }) - 1;
      numbers.set(key, at);
      made[at].from.add(each.name);
      made[at].count = Math.max(made[at].count, each.count, made[at].from.size);
      above = at;
    }
    box.own.forEach((ns, pass) => {
      made[above].own[pass] += ns;
    });
  }
  const number = (list: string[], value: string) => (list.includes(value) ? list.indexOf(value) : list.push(value) - 1);
  const said = made.map(({ name, kind, from }) => ({ name: from.size > 1 ? layerOf(name) : name, kind }));
  const columns: Columns = {
    above: Float64Array.from(made, ({ above }) => above),
    name: Float64Array.from(said, ({ name }) => number(names, name)),
    kind: Float64Array.from(said, ({ kind }) => number(kinds, kind)),
    count: Float64Array.from(made, ({ count }) => count),
  };
  boxes.passes.forEach((pass, at) => {
    columns[pass] = Float64Array.from(made, ({ own }) => own[at]);
  });
  return new Boxes(columns, { names, kinds: kinds as Flame["kinds"], passes: boxes.passes as Flame["passes"] });
}

export function foldedLayers(boxes: Boxes): Boxes {
  return regrown(boxes, pathTo);
}

// From below: kernels (or the innermost ops) first, those of most time to the left, and below each who launched it.
export function bottomUp(boxes: Boxes): Boxes {
  const made = regrown(boxes, (box) => pathTo(box).reverse()),
    totals = made.totals(-1);
  for (const box of [made.root, ...made.all]) box.parts.sort((one, other) => totals[other.number] - totals[one.number]);
  return made;
}

// What surrounds a function: its callers, the nearest first, and what it calls. Both have its time.
export function around(boxes: Boxes, name: string): { callers: Boxes; callees: Boxes } {
  const cut = (part: (path: Named[], at: number) => Named[]) =>
    regrown(boxes, (box) => {
      const path = pathTo(box),
        at = path.findIndex((each) => isNamed(each, name));
      return at < 0 ? [] : part(path, at);
    });
  return { callers: cut((path, at) => path.slice(0, at + 1).reverse()), callees: cut((path, at) => path.slice(at)) };
}

export type FunctionRow = { name: string; kind: string; own: number; total: number };

// Every function with its own time and that of all inside it, in one pass or in all (-1).
export function functionsOf(boxes: Boxes, pass: number): FunctionRow[] {
  const rows = new Map<string, FunctionRow>(),
    totals = boxes.totals(pass);
  for (const { number, name, kind, above, own } of boxes.all) {
    const row = rows.get(name) ?? { name, kind, own: 0, total: 0 };
    rows.set(name, row);
    row.own += pass < 0 ? own.reduce((sum, ns) => sum + ns, 0) : own[pass];
    if (!above || !pathTo(above).some((each) => each.name === name)) row.total += totals[number];
  }
  return [...rows.values()].filter(({ total }) => total > 0);
}

function pathTo(box: Box): Named[] {
  return box.above ? [...pathTo(box.above), box] : [];
}

export function labelOf({ name, count }: Box): string {
  return count > 1 && name.endsWith(EVERY) ? `${name.slice(0, -EVERY.length)} × ${count}` : name;
}

// The names down to a box: `> LlamaMLP_2 > aten::mm`; as a filter it says which work is meant.
export function pathOf(box: Box): string {
  return box.above ? `${pathOf(box.above)}${SEPARATOR}${box.name}`.trimStart() : "";
}

export function isPath(filter: string): boolean {
  return filter.startsWith("> ");
}

// The function that a path ends at; null for a filter that is no path.
export function endOf(filter: string): string | null {
  return isPath(filter) ? (filter.split(/(?:^| )> /).at(-1) ?? null) : null;
}

// A filter that names groups of GPU work, as the terminal does: `= RMSNorm`, `= loss | SwiGLU`. See `view_data.py`.
export function groupsIn(filter: string): string[] | null {
  return filter.startsWith("= ") ? filter.slice(2).split(" | ") : null;
}

// A filter that names a function wherever it is called: `@ aten::mm`.
export function functionIn(filter: string): string | null {
  return filter.startsWith("@ ") ? filter.slice(2) : null;
}

// Whether a filter stands for some work, and is no text to look for.
export function namesWork(filter: string): boolean {
  return isPath(filter) || groupsIn(filter) !== null || functionIn(filter) !== null;
}

function once<Key extends WeakKey, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    const value = known.get(key) ?? make(key);
    known.set(key, value);
    return value;
  };
}

const workOf = once(unpack);

const loaded = { "": new WeakMap<FlameTree, Promise<Boxes>>(), "step ": new WeakMap<FlameTree, Promise<Boxes>>() };

export function boxesOf(flame: Flame, tree: FlameTree, perStep = false): Promise<Boxes> {
  const before = perStep && flame.steps ? "step " : "";
  let found = loaded[before].get(tree);
  if (!found) {
    found = unpack(tree.boxes).then((columns) => new Boxes(columns, flame, before));
    loaded[before].set(tree, found);
  }
  return found;
}

// In shares of the width. What is too thin to be drawn stands together in one place, so that no width is empty without a word.
export interface Placed {
  box: Box;
  from: number;
  share: number;
  ns: number;
  small: number; // how many parts of `box` stand here; 0: the box itself
}

// All boxes at least `thinnest` wide: those above the focus as wide as the whole, then what is inside it.
export function laidOut(boxes: Boxes, focus: Box, totals: Float64Array, thinnest: number): Placed[] {
  const time = (box: Box) => totals[box === boxes.root ? boxes.all.length : box.number];
  const placed: Placed[] = [];
  for (let box: Box | null = focus; box; box = box.above) placed.unshift({ box, from: 0, share: 1, ns: time(box), small: 0 });
  const place = (above: Placed) => {
    let from = above.from,
      small = 0,
      rest = 0;
    for (const part of above.box.parts) {
      const ns = time(part),
        share = (above.share * ns) / above.ns;
      if (ns > 0 && share >= thinnest) {
        const mine = { box: part, from, share, ns, small: 0 };
        placed.push(mine);
        from += share;
        place(mine);
      } else if (ns > 0) {
        small += 1;
        rest += ns;
      }
    }
    const share = (above.share * rest) / above.ns;
    if (small && share >= thinnest) placed.push({ box: above.box, from, share, ns: rest, small });
  };
  if (time(focus) > 0) place(placed[placed.length - 1]);
  return placed;
}

export function depthOf({ box, small }: Placed): number {
  return box.depth + (small ? 1 : 0);
}

// The events of the GPU work of a path; null for a filter that is no path. Work whose backward pass a module owns is its own.
export function chosen(trace: Pick<Shown, "entry">, filter: string): Promise<Set<number> | null> {
  return workOn(trace, filter, "event");
}

export function chosenCases(trace: Pick<Shown, "entry">, filter: string): Promise<Set<number> | null> {
  return workOn(trace, filter, "case");
}

async function workOn({ entry: { flame } }: Pick<Shown, "entry">, filter: string, column: string): Promise<Set<number> | null> {
  if (!namesWork(filter)) return null;
  const work = await workOf(flame.work);
  const groups = new Set(groupsIn(filter)?.map((name) => flame.groups.indexOf(name)) ?? []);
  if (groups.size) return new Set(work[column].filter((_, at) => groups.has(work.group[at])));
  const name = functionIn(filter);
  for (const tree of flame.trees.filter(({ time }) => time === "gpu")) {
    const boxes = await boxesOf(flame, tree),
      found = name === null ? boxes.findAll(filter) : boxes.named(name);
    if (!found.length) continue;
    const inside = new Set(found.flatMap((box) => [...boxes.inside(box)]));
    return new Set(work[column].filter((_, at) => inside.has(work[tree.by][at])));
  }
  return name === null ? new Set() : null; // a function of the host alone launches nothing that could be told apart
}
