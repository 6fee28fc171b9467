// Columns of integers, as packing.py writes them: base64 of a deflated run of variable-length numbers.

import type { Packed } from "./documents";

export type Columns = Record<string, Float64Array>;

export async function unpack(packed: Packed): Promise<Columns> {
  const bytes = await inflate(fromBase64(packed.data));
  const columns: Columns = {};
  let at = 0;
  for (const name of packed.columns) {
    const values = new Float64Array(packed.rows);
    at = readNumbers(bytes, at, values);
    if (packed.differences.includes(name)) addUp(values);
    columns[name] = values;
  }
  return columns;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
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

function addUp(values: Float64Array): void {
  for (let row = 1; row < values.length; row++) values[row] += values[row - 1];
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

// How many values, in order, are below a limit.
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
