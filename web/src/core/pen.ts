// What drawings draw with: a part of what a canvas can do, so that the same drawing also makes an SVG file (svgpen.ts).

type Settings = "fillStyle" | "strokeStyle" | "lineWidth" | "globalAlpha" | "font" | "textAlign" | "textBaseline";
type Paths = "beginPath" | "moveTo" | "lineTo" | "bezierCurveTo" | "closePath" | "rect" | "arc" | "fill" | "stroke" | "clip";
type Shapes = "fillRect" | "strokeRect" | "save" | "restore" | "translate" | "setLineDash";

export interface Pen extends Pick<CanvasRenderingContext2D, Settings | Paths | Shapes> {
  fillText(text: string, x: number, y: number, most?: number): void;
  measureText(text: string): { width: number };
}

export interface Size {
  width: number;
  height: number;
}

// A view that can be saved: one that paints, or an <svg> of the page.
export type Picture = { title: string } & ({ size(): Size; paint(pen: Pen): void } | { svg(): SVGSVGElement | null });
