// Memory over time: totals that hold from one event to the next, at any width without a lost peak.

import { type Columns, firstNot } from "../data/columns";

// The least and the most within each pixel; null before the first event.
export type Extremes = Record<"least" | "most", (number | null)[]>;

export class MemoryLine {
  readonly time: Float64Array;
  readonly allocated: Float64Array;
  readonly reserved: Float64Array | null;

  constructor(columns: Columns) {
    this.time = columns.time;
    this.allocated = columns.allocated;
    this.reserved = columns.reserved ?? null;
  }

  place(time: number): number {
    return firstNot(0, this.time.length, (at) => this.time[at] <= time) - 1;
  }

  // Of each of `width` pixels between two times what the values reach.
  extremes(values: Float64Array, from: number, to: number, width: number): Extremes {
    const found: Extremes = { least: [], most: [] };
    let next = this.place(from) + 1;
    for (let pixel = 0; pixel < width; pixel++) {
      const end = from + ((to - from) * (pixel + 1)) / width;
      let least = next > 0 ? values[next - 1] : Infinity, // what held when the pixel began
        most = next > 0 ? values[next - 1] : -Infinity;
      for (; next < this.time.length && this.time[next] < end; next++) {
        least = Math.min(least, values[next]);
        most = Math.max(most, values[next]);
      }
      found.least.push(least > most ? null : least);
      found.most.push(least > most ? null : most);
    }
    return found;
  }
}
