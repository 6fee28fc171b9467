// Lines across a kernel that changed, is new or is gone, so that it can be told without colour.

import type { Pen } from "./pen";

const APART = 6;
export const SIGNS: Record<string, string> = { changed: "≠", new: "+", gone: "−" };

// Slanted for changed, upright for new, crossed for gone. As many lines as there is room for, whatever the trace.
export function drawMark(pen: Pen, mark: string, x: number, y: number, width: number, height: number, ink: string): void {
  if (!(mark in SIGNS) || width < 3) return;
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.globalAlpha = 0.35;
  pen.strokeStyle = ink;
  pen.lineWidth = 1;
  pen.beginPath();
  const lean = mark === "new" ? 0 : height;
  for (let at = x - (x % APART) - height; at < x + width; at += APART) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + lean, y);
    if (mark !== "gone") continue;
    pen.moveTo(at, y);
    pen.lineTo(at + lean, y + height);
  }
  pen.stroke();
  pen.restore();
}
