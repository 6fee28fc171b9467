// Idle time by cause in any range, from the pieces that Python wrote.

import { type Columns, firstNot, unpack } from "../data/columns";
import type { IdleTime } from "../data/documents";
import type { Range, RangeStats } from "../data/source";

export class IdleIndex {
  private readonly gaps: Int32Array; // which gap each piece belongs to
  private readonly gpus: Range[]; // places of the pieces of each GPU; they are in order of time, and none overlap

  constructor(
    private readonly pieces: Columns,
    private readonly causes: readonly string[],
  ) {
    this.gaps = numberGaps(pieces);
    this.gpus = stretches(pieces);
  }

  static async of(idle: IdleTime | null): Promise<IdleIndex> {
    return new IdleIndex(idle ? await unpack(idle.pieces) : {}, idle?.causes.map(([cause]) => cause) ?? []);
  }

  // The most first. `total` is all idle time of the range: what lies in no known gap is outside of what was recorded.
  within(range: Range, total: number): RangeStats["idle"] {
    const ns = new Float64Array(this.causes.length);
    const count = new Int32Array(this.causes.length);
    const last = new Int32Array(this.causes.length).fill(-1);
    let rest = total;
    const { start, length, cause: causes } = this.pieces;
    for (const { from, to } of this.gpus) {
      const first = firstNot(from, to, (at) => start[at] + length[at] <= range.from);
      for (let at = first; at < to && start[at] < range.to; at++) {
        const cause = causes[at];
        const time = Math.min(start[at] + length[at], range.to) - Math.max(start[at], range.from);
        ns[cause] += time;
        rest -= time;
        if (last[cause] !== this.gaps[at]) count[cause] += 1;
        last[cause] = this.gaps[at];
      }
    }
    const found = this.causes.map((cause, number) => ({ cause, ns: ns[number], count: count[number] }));
    if (rest >= 1) found.push({ cause: "outside", ns: rest, count: 1 });
    return found.filter((each) => each.ns > 0).sort((a, b) => b.ns - a.ns);
  }
}

function stretches({ gpu }: Columns): Range[] {
  const found: Range[] = [];
  gpu?.forEach((number, at) => {
    const last = found.at(-1);
    if (last && gpu[last.from] === number) last.to = at + 1;
    else found.push({ from: at, to: at + 1 });
  });
  return found;
}

// Pieces that touch on one GPU are of one gap.
function numberGaps({ start, length, gpu }: Columns): Int32Array {
  const gaps = new Int32Array(start?.length ?? 0);
  for (let at = 1; at < gaps.length; at++) {
    const touches = gpu[at] === gpu[at - 1] && start[at] === start[at - 1] + length[at - 1];
    gaps[at] = gaps[at - 1] + (touches ? 0 : 1);
  }
  return gaps;
}
