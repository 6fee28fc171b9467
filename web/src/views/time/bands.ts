// The bands of the tracks in view. Every event is in them, at any zoom.

import { ownTime } from "../../core/context";
import { STRIP, type Track } from "../../core/tracks";
import type { Range, Tile } from "../../data/source";
import { type BandPlace, type Ground, rgbOf, type Shares } from "./ground";
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
  if (strip) ground.strip(coloured(scene, track, strip.bands, false), { ...place, faint: 1 });
}

function drawRows(scene: Scene, ground: Ground, track: Track, place: BandPlace, ratio: number): void {
  const height = Math.round((track.rowHeight - 2) * ratio);
  for (const row of scene.rowsOf(track)) {
    const top = place.top + Math.round(row.row * track.rowHeight * ratio);
    if (top > scene.height * ratio || top + height < place.clip) continue;
    const line = { ...place, top: top + Math.round(ratio), height: Math.round(ratio) };
    const annotations = coloured(scene, track, row.bands, true);
    const others = coloured(scene, track, row.bands, false);
    if (annotations.length) ground.row(annotations, line);
    if (others.length) ground.row(others, { ...place, top, height });
    const chosen = coloured(scene, track, chosenBands(scene, track, row.bands), false);
    if (chosen.length) ground.row(chosen, { ...place, top, height, faint: 1, over: true });
  }
}

// The bands of the group that the legend chose: they are drawn over those of the others, which are faint.
function chosenBands(scene: Scene, track: Track, bands: Map<number, Float64Array>): Map<number, Float64Array> {
  const group = scene.shown(track).facts.groups.indexOf(scene.context.store.state.filter);
  const own = bands.get(group);
  return new Map(own ? [[group, own]] : []);
}

// Bands with their colours: of annotations, which are a thin line, or of all else.
function coloured(scene: Scene, track: Track, bands: Map<number, Float64Array>, annotations: boolean): Shares {
  const { colours } = scene.context;
  const { groups } = scene.shown(track).facts;
  const wanted = [...bands].filter(([group]) => (groups[group]?.endsWith("annotation") ?? false) === annotations);
  return wanted.map(([group, busy]) => [busy, rgbOf(annotations ? colours.accent : colours.group(groups[group]))]);
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
