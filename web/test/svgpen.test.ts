// A drawing as SVG: the same places, colours, clips and texts as on a canvas.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type SvgNode, SvgPen } from "../src/core/pen";

function pen(): SvgPen {
  return new SvgPen({ width: 100, height: 50 }, (text) => text.length * 10);
}

function only(drawn: SvgPen): SvgNode {
  assert.equal(drawn.root.children.length, 1);
  return drawn.root.children[0] as SvgNode;
}

test("rectangles of one colour become one path", () => {
  const drawn = pen();
  drawn.fillStyle = "#ff0000";
  drawn.fillRect(1, 2, 3, 4);
  drawn.fillRect(5.123, 6, 7, 8);
  assert.deepEqual(only(drawn).attributes, { class: "boxes", d: "M1 2h3v4h-3zM5.12 6h7v8h-7z", fill: "#ff0000" });
  drawn.fillStyle = "#00ff00";
  drawn.fillRect(0, 0, 1, 1);
  drawn.globalAlpha = 0.5;
  drawn.fillRect(0, 0, 1, 1);
  drawn.fillRect(0, 0, 1, 1); // over each other: two layers
  assert.equal(drawn.root.children.length, 4);
});

test("settings, places and clips end with restore", () => {
  const drawn = pen();
  drawn.save();
  drawn.translate(10, 20);
  drawn.beginPath();
  drawn.rect(0, 0, 5, 5);
  drawn.clip();
  drawn.fillStyle = "#123456";
  drawn.fillRect(1, 1, 1, 1);
  drawn.restore();
  drawn.fillRect(1, 1, 1, 1);
  const [clip, group, after] = drawn.root.children as SvgNode[];
  assert.equal(clip.tag, "clipPath");
  assert.equal(group.attributes["clip-path"], `url(#${clip.attributes.id})`);
  assert.equal((group.children[0] as SvgNode).attributes.d, "M11 21h1v1h-1z");
  assert.deepEqual(after.attributes, { class: "boxes", d: "M1 1h1v1h-1z", fill: "#000000" });
});

test("text has its font, its place, and no character that XML lacks", () => {
  const drawn = pen();
  drawn.font = "12px system-ui, sans-serif";
  drawn.textBaseline = "middle";
  drawn.fillText("<b>\u0001\ud800 ok", 50, 20, 30);
  const { attributes, children } = only(drawn);
  assert.deepEqual(children, ["<b>\ufffd\ufffd ok"]); // a text node; nothing reads it as markup
  assert.deepEqual([attributes["font-size"], attributes["font-family"]], ["12", "system-ui, sans-serif"]);
  assert.deepEqual([attributes.x, attributes.y, attributes.textLength], [50, 24.2, 30]);
});

test("lines and curves", () => {
  const drawn = pen();
  drawn.strokeStyle = "#00f";
  drawn.setLineDash([2, 3]);
  drawn.beginPath();
  drawn.moveTo(0, 0);
  drawn.bezierCurveTo(1, 2, 3, 4, 5, 6);
  drawn.closePath();
  drawn.stroke();
  assert.deepEqual(only(drawn).attributes, {
    d: "M0 0C1 2 3 4 5 6Z",
    fill: "none",
    stroke: "#00f",
    "stroke-width": 1,
    "stroke-dasharray": "2 3",
  });
});
