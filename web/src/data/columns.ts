// Columns of integers, as packing.py writes them: base64 of a deflated run of variable-length numbers.

import type { Packed } from "./documents";

export type Columns = Record<string, Float64Array>;

export async function unpack(packed: Packed): Promise<Columns> {
  const deflated = Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const columns: Columns = {};
  let at = 0;
  for (const name of packed.columns) {
    const values = new Float64Array(packed.rows);
    at = readNumbers(bytes, at, values);
    if (packed.differences.includes(name)) for (let row = 1; row < values.length; row++) values[row] += values[row - 1];
    columns[name] = values;
  }
  return columns;
}

// Seven bits a byte, low bits first. Numbers may exceed 32 bits, so they are added up by multiplication, not by shifts.
function readNumbers(bytes: Uint8Array, start: number, values: Float64Array): number {
  let at = start;
  for (let row = 0; row < values.length; row++) {
    let byte = bytes[at++];
    let number = byte & 127;
    for (let weight = 128; byte & 128; weight *= 128) {
      byte = bytes[at++];
      number += (byte & 127) * weight;
    }
    values[row] = number % 2 ? -(number + 1) / 2 : number / 2; // zigzag: odd numbers stand for negative ones
  }
  return at;
}

// The first of some places at which something does not hold; it holds at all before that one.
export function firstNot(from: number, to: number, holds: (at: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function countBelow(values: Float64Array, limit: number): number {
  return firstNot(0, values.length, (at) => values[at] < limit);
}

export function grouped<Key, Value>(values: Iterable<Value>, key: (value: Value) => Key): Map<Key, Value[]> {
  const found = new Map<Key, Value[]>();
  for (const value of values) {
    const own = found.get(key(value));
    if (own) own.push(value);
    else found.set(key(value), [value]);
  }
  return found;
}
