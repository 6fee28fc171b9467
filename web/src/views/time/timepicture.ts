// The timeline as a picture: what is in view of names, ruler and tracks, drawn with any pen.

import { hexOf, type Rgb, rgbOf } from "../../base/colours";
import type { Pen, Picture } from "../../core/pen";
import { STRIP } from "../../core/tracks";
import { type BandPlace, drawBands, type Ground, type Shares } from "./bands";
import { drawGrid } from "./canvas";
import { Overlay } from "./overlay";
import { drawRuler, RULER } from "./ruler";
import type { Scene } from "./scene";
import type { Waiting } from "./waiting";

const GUTTER = 150;
const SHADES = 32; // steps from empty to full: fewer rectangles, and no difference to the eye
const FONT = "11px ui-monospace, monospace";

export function timelinePicture(scene: Scene, waiting: Waiting): Picture {
  return {
    title: "Timeline",
    size: () => ({ width: GUTTER + scene.width, height: RULER + scene.height }),
    paint: (pen) => paint(scene, waiting, pen),
  };
}

function paint(scene: Scene, waiting: Waiting, pen: Pen): void {
  pen.font = FONT;
  pen.textBaseline = "middle";
  within(pen, 0, RULER, GUTTER - 4, scene.height, () => names(scene, pen));
  within(pen, GUTTER, 0, scene.width, RULER, () => drawRuler(scene, pen));
  within(pen, GUTTER, RULER, scene.width, scene.height, () => {
    drawGrid(scene, pen);
    waiting.picture(pen);
    drawBands(scene, new Shapes(pen, rgbOf(scene.context.colours.of("back"))), 1);
    new Overlay(scene, pen).draw();
  });
}

function within(pen: Pen, x: number, y: number, width: number, height: number, draw: () => void): void {
  pen.save();
  pen.translate(x, y);
  pen.beginPath();
  pen.rect(0, 0, width, height);
  pen.clip();
  draw();
  pen.restore();
}

function names(scene: Scene, pen: Pen): void {
  for (const track of scene.visible()) {
    pen.fillStyle = track.kind === "title" ? scene.context.colours.of("text") : scene.context.colours.of("faint");
    pen.fillText(track.label, 2 + track.depth * 12, scene.top(track) + Math.min(track.height, STRIP) / 2);
  }
}

// Bands as rectangles: as many as there are changes of colour between pixels, whatever the trace.
class Shapes implements Ground {
  constructor(
    private readonly pen: Pen,
    private readonly back: Rgb,
  ) {}

  strip(shares: Shares, { at, pixel, top, height, clip, faint }: BandPlace): void {
    if (top + height <= clip) return;
    const low = new Float64Array(at.length);
    for (const [busy, rgb] of shares) {
      const part = (x: number) => (at[x] < 0 ? 0 : busy[at[x]] / pixel);
      this.pen.fillStyle = hexOf(rgb.map((own, each) => own * faint + this.back[each] * (1 - faint)));
      const draw = (from: number, to: number) => {
        if (part(from) > 0) this.pen.fillRect(from, top + height * (1 - low[from] - part(from)), to - from, height * part(from));
      };
      runs(at.length, (x) => `${low[x]} ${part(x)}`, draw);
      for (let x = 0; x < at.length; x++) low[x] += part(x);
    }
  }

  row(shares: Shares, place: BandPlace): void {
    if (place.top + place.height <= place.clip) return;
    const colours = Array.from(place.at, (at) => this.mixed(shares, at, place));
    const draw = (from: number, to: number) => {
      if (!colours[from]) return;
      this.pen.fillStyle = colours[from];
      this.pen.fillRect(from, place.top, to - from, place.height);
    };
    runs(colours.length, (x) => colours[x], draw);
  }

  // The mixed colour of the groups, the fainter the less a pixel is busy; nothing where it is idle.
  private mixed(shares: Shares, at: number, { pixel, faint }: BandPlace): string {
    const parts = at < 0 ? [] : shares.map(([busy, rgb]) => [busy[at], rgb] as const);
    const sum = parts.reduce((total, [ns]) => total + ns, 0);
    if (sum <= 0) return "";
    const share = Math.ceil(Math.min(sum / pixel, 1) * SHADES) / SHADES;
    const alpha = (share > 0.999 ? 1 : 0.2 + 0.8 * share) * faint;
    const own = (each: number) => parts.reduce((total, [ns, rgb]) => total + ns * rgb[each], 0) / sum;
    return hexOf(this.back.map((back, each) => own(each) * alpha + back * (1 - alpha)));
  }
}

// Pixels that follow each other and have the same key, together.
function runs(count: number, key: (x: number) => string, draw: (from: number, to: number) => void): void {
  for (let from = 0, to = 0; from < count; from = to) {
    const first = key(from);
    while (to < count && key(to) === first) to++;
    draw(from, to);
  }
}
