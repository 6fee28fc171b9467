// The pixels that bands are drawn with, one by one: what a pixel shows is computed, never smoothed. Its opacity says how much of
// it is busy, so that the busy time can be read off the canvas.

import type { BandPlace, Ground, Rgb, Shares } from "./ground";

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
  strip(shares: Shares, { at, pixel, top, height, clip }: BandPlace): void {
    for (let x = 0; x < at.length; x++) {
      let low = 0;
      for (const [busy, rgb] of at[x] < 0 ? [] : shares) {
        const high = low + (busy[at[x]] / pixel) * height;
        if (high > low) this.column(x, top + height - high, top + height - low, rgb, clip);
        low = high;
      }
    }
  }

  // From one height to another, both fractions: the lines at the ends are as opaque as they are covered.
  private column(x: number, high: number, low: number, rgb: Rgb, clip: number): void {
    const width = this.image.width;
    const last = Math.min(Math.ceil(low - 1e-6), this.image.height);
    for (let y = Math.max(Math.floor(high), clip, 0); y < last; y++) {
      const covered = Math.min(low, y + 1) - Math.max(high, y);
      const place = y * width + x;
      this.data[place] = covered > 0.999 ? packed(rgb, 255) : added(this.data[place], rgb, covered);
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

function packed([red, green, blue]: Rgb, alpha: number): number {
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
