// The bands of the tracks in view. Every event is in them, at any zoom.

import { type Rgb, rgbOf } from "../../base/colours";
import { ownTime } from "../../core/context";
import { STRIP, type Track } from "../../core/tracks";
import type { Range, Tile } from "../../data/source";
import type { Scene } from "./scene";

// `ratio`: pixels of the ground in one of the page.
export function drawBands(scene: Scene, ground: Ground, ratio: number): void {
  const width = Math.round(scene.width * ratio);
  const places = new Map<number, Int32Array>();
  for (const track of scene.visible()) {
    const tile = scene.tiles[track.trace];
    if (!tile || (track.lane < 0 && track.gpu < 0)) continue;
    const at = places.get(track.trace) ?? pixelPlaces(tile, ownTime(scene.shown(track), scene.range), width);
    places.set(track.trace, at);
    const clip = track.pinned ? 0 : Math.round(scene.layout.pinnedHeight * ratio);
    const faint = scene.matches[track.trace] ? 0.3 : 1;
    const place = { at, pixel: (tile.to - tile.from) / tile.width, top: Math.round(scene.top(track) * ratio), height: 0, clip, faint };
    if (track.gpu >= 0) drawStrip(scene, ground, track, tile, { ...place, height: STRIP * ratio });
    else drawRows(scene, ground, track, place, ratio);
  }
}

function drawStrip(scene: Scene, ground: Ground, track: Track, tile: Tile, place: BandPlace): void {
  const strip = tile.strips.find((each) => each.gpu === track.gpu);
  if (strip) ground.strip(coloured(scene, track, strip.bands, false), place);
  const chosen = scene.chosen[track.trace]?.strip(track.gpu, tile);
  if (chosen?.size) ground.strip(coloured(scene, track, chosen, false), { ...place, faint: 1, over: true });
}

function drawRows(scene: Scene, ground: Ground, track: Track, place: BandPlace, ratio: number): void {
  const height = Math.round((track.rowHeight - 2) * ratio);
  const tile = scene.tiles[track.trace];
  for (const row of scene.rowsOf(track)) {
    const top = place.top + Math.round(row.row * track.rowHeight * ratio);
    if (top > scene.height * ratio || top + height < place.clip) continue;
    const line = { ...place, top: top + Math.round(ratio), height: Math.round(ratio) };
    const annotations = coloured(scene, track, row.bands, true);
    const others = coloured(scene, track, row.bands, false);
    if (annotations.length) ground.row(annotations, line);
    if (others.length) ground.row(others, { ...place, top, height });
    const work = tile && scene.chosen[track.trace]?.row(track.lane, row.row, tile);
    const chosen = work?.size ? coloured(scene, track, work, false) : [];
    if (chosen.length) ground.row(chosen, { ...place, top, height, faint: 1, over: true });
  }
}

// Bands with their colours: of annotations, which are a thin line, or of all else.
function coloured(scene: Scene, track: Track, bands: Map<number, Float64Array>, annotations: boolean): Shares {
  const { colours } = scene.context;
  const { groups } = scene.shown(track).facts;
  const wanted = [...bands].filter(([group]) => (groups[group]?.endsWith("annotation") ?? false) === annotations);
  return wanted.map(([group, busy]) => [busy, rgbOf(annotations ? colours.of("annotation") : colours.of(groups[group]))]);
}

// The pixel of a tile that each pixel of a range in its time shows: a tile may be wider than the range, or that of an earlier view.
export function pixelPlaces(tile: Tile, { from, to }: Range, width: number): Int32Array {
  const found = new Int32Array(width);
  const perPixel = (to - from) / width;
  const own = (tile.to - tile.from) / tile.width;
  for (let x = 0; x < width; x++) {
    const at = Math.floor((from - tile.from + (x + 0.5) * perPixel) / own);
    found[x] = at >= 0 && at < tile.width ? at : -1;
  }
  return found;
}

// The pixels that bands are drawn with, one by one: what a pixel shows is computed, never smoothed. Its opacity says how much of
// it is busy, so that the busy time can be read off the canvas.

const FAINTEST = 0.2; // of a pixel with any work in it, so that a single short kernel is seen

export class Pixels implements Ground {
  private image = new ImageData(1, 1);
  private data = new Uint32Array(1);
  private line = new Uint32Array(1);
  private sums = new Float32Array(4);

  begin(width: number, height: number): void {
    if (this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.data = new Uint32Array(this.image.data.buffer);
      this.line = new Uint32Array(width);
      this.sums = new Float32Array(width * 4);
    } else this.data.fill(0);
  }

  show(pen: CanvasRenderingContext2D): void {
    pen.putImageData(this.image, 0, 0);
  }

  // A row of events: the mixed colour of its groups, as opaque as it is busy.
  row(shares: Shares, { at, pixel, top, height, clip, faint, over }: BandPlace): void {
    const { sums, line } = this;
    const width = at.length;
    sums.fill(0);
    for (const [busy, [red, green, blue]] of shares) {
      for (let x = 0; x < width; x++) {
        const share = at[x] < 0 ? 0 : busy[at[x]];
        if (share <= 0) continue;
        sums[x * 4] += share;
        sums[x * 4 + 1] += share * red;
        sums[x * 4 + 2] += share * green;
        sums[x * 4 + 3] += share * blue;
      }
    }
    for (let x = 0; x < width; x++) line[x] = mixed(sums, x * 4, pixel, faint);
    const last = Math.min(top + height, this.image.height);
    for (let y = Math.max(top, clip, 0); y < last; y++) {
      if (!over) this.data.set(line, y * width);
      else for (let x = 0; x < width; x++) if (line[x]) this.data[y * width + x] = line[x];
    }
  }

  // A utilisation strip: groups upon each other, as high as they are busy.
  strip(shares: Shares, { at, pixel, top, height, clip, faint }: BandPlace): void {
    for (let x = 0; x < at.length; x++) {
      let low = 0;
      for (const [busy, rgb] of at[x] < 0 ? [] : shares) {
        const high = low + (busy[at[x]] / pixel) * height;
        if (high > low) this.column(x, top + height - high, top + height - low, rgb, clip, faint);
        low = high;
      }
    }
  }

  // From one height to another, both fractions: the lines at the ends are as opaque as they are covered.
  private column(x: number, high: number, low: number, rgb: Rgb, clip: number, faint: number): void {
    const width = this.image.width;
    const last = Math.min(Math.ceil(low - 1e-6), this.image.height);
    for (let y = Math.max(Math.floor(high), clip, 0); y < last; y++) {
      const covered = Math.min(low, y + 1) - Math.max(high, y);
      const place = y * width + x;
      this.data[place] = covered > 0.999 ? packed(rgb, 255 * faint) : added(this.data[place], rgb, covered * faint);
    }
  }
}

function mixed(sums: Float32Array, at: number, pixel: number, faint: number): number {
  const sum = sums[at];
  if (sum <= 0) return 0;
  const share = Math.min(sum / pixel, 1);
  const alpha = share > 0.999 ? 1 : FAINTEST + (1 - FAINTEST) * share;
  return packed([sums[at + 1] / sum, sums[at + 2] / sum, sums[at + 3] / sum], alpha * faint * 255);
}

export function packed([red, green, blue]: Rgb, alpha: number): number {
  return ((Math.round(alpha) << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}

// Add a part of a pixel to what covers another part of it.
function added(before: number, rgb: Rgb, covered: number): number {
  const share = (before >>> 24) / 255;
  const all = Math.min(share + covered, 1);
  const mix = (old: number, own: number) => (old * share + own * covered) / (share + covered);
  const old: Rgb = [before & 255, (before >>> 8) & 255, (before >>> 16) & 255];
  return packed([mix(old[0], rgb[0]), mix(old[1], rgb[1]), mix(old[2], rgb[2])], all * 255);
}

// What bands are drawn on: pixels of a canvas, or shapes of a picture.

export type Shares = readonly (readonly [busy: Float64Array, colour: Rgb])[];

export interface Ground {
  row(shares: Shares, place: BandPlace): void;
  strip(shares: Shares, place: BandPlace): void;
}

export interface BandPlace {
  at: Int32Array; // the pixel of the tile that each pixel shows, -1 for none
  pixel: number; // ns
  top: number;
  height: number;
  clip: number; // nothing is drawn above this line
  over?: boolean; // over what is there, instead of in its place
  faint: number; // 1: as it is; less where a search is about other events
}
