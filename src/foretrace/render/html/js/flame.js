// GPU time by module: a box per module, op and kernel, as wide as its time. A box below another is a part of it.

import { makeIn, replace } from "./dom.js";
import { percentText, timeText } from "./units.js";

const BOX = 20, THINNEST = 0.0015; // height of a box, and the share of the width below which none is drawn

export function drawFlame(svg, note, flame) {
  if (!flame?.stacks.length) {
    svg.remove();
    return replace(note, "The trace has no GPU work with a time.");
  }
  const root = stackTree(flame);
  const show = (node, focus) => {
    const boxes = [];
    for (let above = node; above; above = above.above) boxes.push({ node: above, from: 0, share: 1 });
    placeParts(node, 0, 1, boxes);
    const depth = Math.max(...boxes.map((box) => box.node.depth)) + 1;
    svg.setAttribute("height", depth * BOX);
    const drawn = boxes.sort((a, b) => a.node.depth - b.node.depth || a.from - b.from).map((box) => flameBox(svg, box, root, show));
    replace(svg, ...drawn);
    if (focus) drawn[boxes.findIndex((box) => box.node === node)].focus();
  };
  show(root, false);
  const left = flame.left_out_ns ? ` ${timeText(flame.left_out_ns)} in small parts are not shown.` : "";
  const outer = flame.has_modules ? "nn.Modules" : "record_function ranges, as no nn.Modules were recorded";
  return replace(note, `From the top: ${outer}; the backward pass where it is named; ops; kernels. The width is GPU time over the ` +
    `whole recording. Choose a box to widen it, and one above it to go back.${left}`);
}

// Nodes by stack; the last frame is a kernel, the one before it an op.
function stackTree(flame) {
  const root = { name: "all GPU work", kind: "all", depth: 0, ns: 0, parts: new Map(), above: null };
  for (const [frames, ns] of flame.stacks) {
    let node = root;
    node.ns += ns;
    frames.forEach((frame, at) => {
      const kind = at === frames.length - 1 ? "kernel" : at === frames.length - 2 ? "op" : "module";
      const key = `${kind} ${frame}`;
      if (!node.parts.has(key)) {
        node.parts.set(key, { name: flame.frames[frame], kind, depth: node.depth + 1, ns: 0, parts: new Map(), above: node });
      }
      node = node.parts.get(key);
      node.ns += ns;
    });
  }
  return root;
}

function placeParts(node, from, share, boxes) {
  let start = from;
  for (const part of node.parts.values()) {
    const width = (share * part.ns) / node.ns;
    if (width >= THINNEST) {
      boxes.push({ node: part, from: start, share: width });
      placeParts(part, start, width, boxes);
    }
    start += width;
  }
}

// A box is an <svg> of its own, so that it cuts its text.
function flameBox(svg, { node, from, share }, root, show) {
  const words = `${node.name}: ${timeText(node.ns)}, ${percentText(node.ns / root.ns)} of GPU time`;
  const box = makeIn(svg, "svg", { class: `box ${node.kind}`, x: `${from * 100}%`, y: node.depth * BOX, width: `${share * 100}%`,
    height: BOX, tabindex: 0, role: "button", "aria-label": words },
  makeIn(svg, "title", {}, words), makeIn(svg, "rect", { width: "100%", height: BOX - 1 }));
  if (share > 0.02) box.append(makeIn(svg, "text", { x: 4, y: BOX - 6 }, node.name));
  box.addEventListener("click", () => show(node, false));
  box.addEventListener("keydown", (event) => { if (event.key === "Enter") show(node, true); });
  return box;
}
