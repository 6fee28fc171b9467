// Which work of one trace stands for which work of the trace below it, place by place, as Python compared their typical repeats.

import type { Columns } from "../data/columns";
import type { ComparedPair } from "../data/documents";
import type { Range } from "../data/source";

// GPU operations of one trace in one place: when they run, in the time of their trace.
interface Side extends Range {
  events: number[];
  cases: number[]; // places in the kernels of the trace; -1: no kernel
}

type Sides = [Side | null, Side | null];

export interface Place {
  change: number; // a place in `pair.changes`
  sides: Sides; // in trace `a`, and what stands there in trace `b`; null: nothing
}

export class Joins {
  readonly places: readonly Place[];

  constructor(
    readonly pair: ComparedPair,
    work: Columns,
  ) {
    const found: (Place & { number: number })[] = [];
    for (let at = 0; at < work.change.length; at++) {
      const change = work.change[at],
        number = work.place[at],
        last = found[found.length - 1];
      const here = last?.change === change && last.number === number ? last : { change, number, sides: [null, null] as Sides };
      if (here !== last) found.push(here);
      const from = work.start[at],
        to = from + work.length[at];
      here.sides[work.side[at]] ??= { from, to, events: [], cases: [] };
      const side = here.sides[work.side[at]] as Side;
      side.from = Math.min(side.from, from);
      side.to = Math.max(side.to, to);
      side.events.push(work.event[at]);
      side.cases.push(work.case[at]);
    }
    this.places = found;
  }

  of(change: number): Place[] {
    return this.places.filter((place) => place.change === change).sort((a, b) => begins(a) - begins(b));
  }

  changed(place: Place): boolean {
    return !this.pair.changes[place.change].same;
  }

  // Where a place is in shared time, in both traces together.
  around(place: Place, traces: readonly { zero: number }[]): Range {
    const zeros = [this.pair.a, this.pair.b].map((at) => traces[at].zero);
    const of = (edge: "from" | "to") => place.sides.flatMap((side, at) => (side ? [side[edge] - zeros[at]] : []));
    return { from: Math.min(...of("from")), to: Math.max(...of("to")) };
  }

  // When each side of a place begins, in the time of its trace. Where a side has nothing, it is the end of what stands before it.
  begins({ sides }: Place): [number, number] {
    const [a, b] = sides.map((side, at) => side?.from ?? this.before(sides[1 - at] as Side, at));
    return [a, b];
  }

  private before({ from }: Side, empty: number): number {
    let [latest, found] = [Number.NEGATIVE_INFINITY, 0];
    for (const { sides } of this.places) {
      const [own, other] = [sides[empty], sides[1 - empty]];
      if (!own || !other || other.from >= from || other.from <= latest) continue;
      [latest, found] = [other.from, own.to];
    }
    return found;
  }

  // The changes by what they save or cost, the largest first: places in `pair.changes`.
  bySize(): number[] {
    const { changes } = this.pair,
      size = (at: number) => Math.abs(changes[at].saved_ns ?? 0);
    return [...changes.keys()].filter((at) => !changes[at].same).sort((one, other) => size(other) - size(one));
  }

  holding(trace: number, event: number): Place | undefined {
    const { a, b } = this.pair;
    return this.places.find(({ sides }) => [a, b].some((each, at) => each === trace && sides[at]?.events.includes(event)));
  }
}

function begins({ sides: [a, b] }: Place): number {
  return (a ?? b)?.from ?? 0;
}
