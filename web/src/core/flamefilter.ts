// A box of the flame graph as a filter of the timeline: a path such as `> LlamaMLP_2 > aten::mm`.

import { type Columns, unpack } from "../data/columns";
import type { Flame } from "../data/documents";
import type { Shown } from "./context";
import { boxesOf, isPath } from "./flametree";

// The events of the GPU work of a path; null for a filter that is no path. Work whose backward pass a module owns is its own.
export function chosen(trace: Pick<Shown, "entry">, filter: string): Promise<Set<number> | null> {
  return workOn(trace, filter, "event");
}

// The kernels of a path, by case.
export function chosenCases(trace: Pick<Shown, "entry">, filter: string): Promise<Set<number> | null> {
  return workOn(trace, filter, "case");
}

async function workOn({ entry: { flame } }: Pick<Shown, "entry">, filter: string, column: string): Promise<Set<number> | null> {
  if (!isPath(filter)) return null;
  const work = await workOf(flame);
  for (const tree of flame.trees.filter(({ time }) => time === "gpu")) {
    const boxes = await boxesOf(flame, tree),
      box = boxes.find(filter);
    if (!box) continue;
    const inside = boxes.inside(box);
    return new Set(work[column].filter((_, at) => inside.has(work[tree.by][at])));
  }
  return new Set();
}

const loaded = new WeakMap<Flame, Promise<Columns>>();

function workOf(flame: Flame): Promise<Columns> {
  let found = loaded.get(flame);
  if (!found) {
    found = unpack(flame.work);
    loaded.set(flame, found);
  }
  return found;
}
