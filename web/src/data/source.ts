// Where a view gets data from. A report answers from the columns it holds, `serve` asks the server; views do not know which.
// Times are nanoseconds from the first event of the trace. Numbers of groups are places in `TraceFacts.groups`, those of kernels
// places in `TraceFacts.kernels`, those of events the ids of the trace.

import type { Columns } from "./columns";
import type { Events } from "./events";

export type Range = { from: number; to: number };

// What is drawn of one row of one track. Bands hold every event, boxes those that are wide enough to be told apart: a view draws
// the bands and then the boxes above them, so that nothing is lost at any zoom.
export interface RowTile {
  track: number; // a place in `TraceFacts.lanes`
  row: number;
  bands: Map<number, Float64Array>; // busy ns of each pixel, by group
  boxes: Columns; // the columns of `Timeline.columns` in Python
}

export interface Strip {
  gpu: number; // the number that `Lane.gpu_number` has
  bands: Map<number, Float64Array>; // busy ns of each pixel, by group; together never more than the pixel
}

export interface Tile extends Range {
  width: number; // pixels
  rows: RowTile[];
  strips: Strip[];
}

export interface Part {
  number: number; // of a group, or of a kernel by case
  ns: number;
  count: number;
}

// What happened in a range; null is unknown, never zero. Everything is clipped to the range, sums are over all GPUs.
export interface RangeStats extends Range {
  gpus: number;
  busyNs: number | null;
  idle: { cause: string; ns: number; count: number }[]; // count: gaps; the cause `outside` is time that was not recorded
  groups: Part[]; // operations that run at once share the time, so that groups add up to what is busy
  kernels: Part[]; // each its own time
  launches: number; // launch calls that begin in the range
  bytes: number | null; // of the kernels whose cost is known, by the part of each that is in the range
  flops: number | null;
  costedNs: { bytes: number; flops: number }; // the time of those kernels
}

export interface Found {
  count: number; // all of them
  names: Map<number, number>; // how many events bear each name
  events: Columns; // the first in order of time, at most 5,000
}

// Ways from an event to another: along launch order on the GPU or along its row on the host, to its caller, to what it called.
export type Way = "next" | "previous" | "up" | "down";

export interface DataSource {
  tile(range: Range, width: number, tracks: readonly number[], signal?: AbortSignal): Promise<Tile>;
  details(event: number): Promise<Columns>;
  // All launches of a kernel by case: event, start, length, and the step that launched it (-1: none).
  launches(kernel: number): Promise<Columns>;
  // The event that a step in this direction leads to; from nothing: the first after `time`. Null where there is none.
  neighbour(event: number | null, way: Way, time: number): Promise<number | null>;
  rangeStats(range: Range): Promise<RangeStats>;
  gpuWork(): Promise<Events>;
  search(text: string): Promise<Found>;
}
