// Where everything is on the canvas, for tests and for the curious: `foretrace.layout()`.

import { STRIP, type Track } from "../../core/tracks";
import type { Range } from "../../data/source";
import type { Scene } from "./scene";

export interface Described extends Range {
  left: number; // of the canvas in the window, in pixels of the page
  top: number;
  width: number;
  height: number;
  rows: { kind: string; trace: number; key: string; top: number; height: number; gpu?: number; track?: number; row?: number }[];
}

export function described(scene: Scene, canvas: HTMLCanvasElement): Described {
  const { left, top } = canvas.getBoundingClientRect();
  const all = [...scene.layout.pinned, ...scene.layout.moving];
  const rows = all.flatMap((track) => rowsOf(scene, track));
  return { left, top, width: scene.width, height: scene.height, ...scene.range, rows };
}

function rowsOf(scene: Scene, track: Track): Described["rows"] {
  const { trace, key, gpu, lane, rowHeight } = track;
  const top = scene.top(track);
  if (gpu >= 0) return [{ kind: "strip", trace, key, gpu, top, height: STRIP }];
  if (lane < 0) return [{ kind: "name", trace, key, top, height: track.height }];
  const row = (number: number) => ({
    kind: "row",
    trace,
    key,
    track: lane,
    row: number,
    top: top + number * rowHeight,
    height: rowHeight - 2,
  });
  return Array.from({ length: track.rows }, (_, number) => row(number));
}
