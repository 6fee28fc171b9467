// The ruler: it stays in view, and counts from the start of the step that the traces are aligned by.

import { make } from "../../base/dom";
import type { Pen } from "../../core/pen";
import { ticks } from "../../core/ticks";
import type { Scene } from "./scene";
import { drawOnRuler, type RulerText, rangeTexts } from "./shading";

export const RULER = 22;
export const TICK = 130; // the room that the longest label needs

// Labels are text of the page: they can be read aloud and copied. Lines and marks are drawn.
export function ruler(scene: Scene): HTMLElement {
  const canvas = make("canvas", { "aria-label": "Marks" });
  const labels = make("div", { class: "labels" });
  const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
  scene.paint(() => {
    const width = Math.round(scene.width * scene.ratio);
    if (canvas.width !== width) canvas.width = width;
    canvas.height = Math.round(RULER * scene.ratio); // also clears it
    pen.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
    drawLines(scene, pen);
    drawOnRuler(scene, pen, RULER);
    showLabels(labels, [...tickTexts(scene), ...rangeTexts(scene)]);
  });
  return make("div", { class: "ruler" }, canvas, labels);
}

function tickTexts(scene: Scene): RulerText[] {
  const { from, to } = scene.range;
  return ticks(from, to, scene.width / TICK).map(({ time, label }) => ({ x: Math.round(scene.x(time)) + 3, text: label, kind: "tick" }));
}

// Nodes are used again: sixty times a second none is made.
function showLabels(node: HTMLElement, texts: readonly RulerText[]): void {
  while (node.childElementCount < texts.length) node.append(make("div"));
  while (node.childElementCount > texts.length) node.lastElementChild?.remove();
  texts.forEach(({ x, text, kind }, at) => {
    const own = node.children[at] as HTMLElement;
    if (own.textContent !== text) own.textContent = text;
    if (own.className !== kind) own.className = kind;
    own.style.transform = `translateX(${x}px)`;
  });
}

// The same with a pen, labels included.
export function drawRuler(scene: Scene, pen: Pen): void {
  const { colours } = scene.context;
  pen.font = "11px ui-monospace, monospace";
  pen.textBaseline = "middle";
  drawLines(scene, pen);
  drawOnRuler(scene, pen, RULER);
  for (const { x, text, kind } of [...tickTexts(scene), ...rangeTexts(scene)]) {
    if (kind === "range") {
      pen.fillStyle = colours.back;
      pen.fillRect(x, 1, pen.measureText(text).width + 8, RULER - 5);
    }
    pen.fillStyle = kind === "tick" ? colours.faint : colours[kind === "range" ? "accent" : "warn"];
    pen.fillText(text, kind === "range" ? x + 4 : x, RULER / 2);
  }
}

function drawLines(scene: Scene, pen: Pen): void {
  const { from, to } = scene.range;
  pen.strokeStyle = scene.context.colours.line;
  pen.beginPath();
  for (const { time } of ticks(from, to, scene.width / TICK)) {
    const x = Math.round(scene.x(time)) + 0.5;
    pen.moveTo(x, 0);
    pen.lineTo(x, RULER);
  }
  pen.stroke();
}
