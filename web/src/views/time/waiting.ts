// GPU idle time in the strips: hatched by cause, from above, as high as it is idle. It lies on a canvas of its own below the
// tracks, so that the pixels of a strip are its busy time alone.

import { HATCHED, rgbOf } from "../../base/colours";
import { make } from "../../base/dom";
import { Bands } from "../../core/busy";
import { ownTime } from "../../core/context";
import type { Pen } from "../../core/pen";
import { STRIP, type Track } from "../../core/tracks";
import { unpack } from "../../data/columns";
import { packed } from "./bands";
import type { Scene } from "./scene";

const APART = 5; // pixels from line to line
const THICK = 1.6;
const LEAST = 0.02; // of a pixel: less idle time is not drawn

type IdleShare = { cause: string; share: Float64Array }; // of each pixel

export class Waiting {
  readonly node = make("canvas", { class: "waiting", "aria-hidden": "true" });
  private readonly pen = this.node.getContext("2d") as CanvasRenderingContext2D;
  private readonly gpus: Map<number, Bands>[];

  constructor(private readonly scene: Scene) {
    this.gpus = scene.context.traces.map(() => new Map());
    this.load();
    scene.paint(() => this.draw());
  }

  private async load(): Promise<void> {
    const { traces } = this.scene.context;
    await Promise.all(
      traces.map(async ({ facts }, trace) => {
        if (!facts.idle) return;
        const { start, length, cause, gpu } = await unpack(facts.idle.pieces);
        for (const number of new Set(gpu)) {
          const own = [...gpu.keys()].filter((at) => gpu[at] === number);
          const pick = (value: (at: number) => number) => Float64Array.from(own, value);
          const bands = { start: pick((at) => start[at]), end: pick((at) => start[at] + length[at]), group: pick((at) => cause[at]) };
          this.gpus[trace].set(number, new Bands(bands));
        }
      }),
    );
    this.scene.redraw();
  }

  of(track: Track, width: number): IdleShare[] {
    const { scene } = this;
    const shown = scene.shown(track);
    const range = ownTime(shown, scene.range);
    const bands = this.gpus[track.trace].get(track.gpu);
    const causes = shown.facts.idle?.causes ?? [];
    return (bands?.groups ?? []).map((cause) => ({
      cause: causes[cause]?.[0] ?? "unknown",
      share: bands?.sharesOf(cause, range.from, range.to, width) ?? new Float64Array(width),
    }));
  }

  private strips(): Track[] {
    return this.scene.visible().filter((track) => track.gpu >= 0);
  }

  private draw(): void {
    const { scene, pen, node } = this;
    const width = Math.round(scene.width * scene.ratio);
    const strips = this.strips();
    const bottom = Math.max(1, ...strips.map((track) => scene.top(track) + STRIP)); // no larger than it must be: it is drawn in every frame
    const height = Math.round(Math.min(bottom, scene.height) * scene.ratio);
    if (node.width !== width || node.height !== height) {
      node.width = width; // the page is laid out again only then
      node.height = height;
      node.style.width = `${scene.width}px`;
      node.style.height = `${height / scene.ratio}px`;
    }
    pen.clearRect(0, 0, width, height);
    for (const track of strips) this.strip(track, width);
  }

  private strip(track: Track, width: number): void {
    const { scene, pen } = this;
    const clip = track.pinned ? 0 : Math.round(scene.layout.pinnedHeight * scene.ratio);
    const high = Math.round(STRIP * scene.ratio);
    const image = new ImageData(width, high);
    const dots = new Uint32Array(image.data.buffer);
    const filled = new Float64Array(width);
    for (const { cause, share } of this.of(track, width)) {
      const dot = packed(rgbOf(scene.context.colours.idle(cause)), 255);
      const angle = ((HATCHED[cause] ?? 45) * Math.PI) / 180;
      const [across, down] = [Math.sin(angle) / scene.ratio, -Math.cos(angle) / scene.ratio];
      for (let x = 0; x < width; x++) {
        if (share[x] < LEAST) continue;
        const from = Math.round(filled[x]);
        filled[x] += share[x] * high;
        for (let y = from; y < Math.min(Math.round(filled[x]), high); y++) {
          const place = x * across + y * down;
          if (place - Math.floor(place / APART) * APART < THICK) dots[y * width + x] = dot;
        }
      }
    }
    const top = Math.round(scene.top(track) * scene.ratio);
    const hidden = Math.max(clip - top, 0);
    if (hidden < high) pen.putImageData(image, 0, top, 0, hidden, width, high - hidden);
  }

  // In a picture idle time is a tint of its cause.
  picture(pen: Pen): void {
    const { scene } = this;
    const width = Math.round(scene.width);
    pen.globalAlpha = 0.35;
    for (const track of this.strips()) {
      const filled = new Float64Array(width);
      for (const { cause, share } of this.of(track, width)) {
        pen.fillStyle = scene.context.colours.idle(cause);
        for (let x = 0; x < width; x++) {
          if (share[x] < LEAST) continue;
          pen.fillRect(x, scene.top(track) + filled[x], 1, share[x] * STRIP);
          filled[x] += share[x] * STRIP;
        }
      }
    }
    pen.globalAlpha = 1;
  }

  // What the GPU waits for at a place of its strip: the cause with the most time there.
  wordsAt(track: Track, x: number): string {
    const { facts } = this.scene.shown(track);
    const here = this.of(track, Math.round(this.scene.width)).map(({ cause, share }) => ({ cause, part: share[Math.floor(x)] ?? 0 }));
    const most = here.sort((a, b) => b.part - a.part)[0];
    return most && most.part > LEAST ? (facts.idle?.causes.find(([cause]) => cause === most.cause)?.[1] ?? "") : "";
  }
}
