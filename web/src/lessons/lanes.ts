// One call from left to right: a lane for each kind of event, what decides in a strong colour. Drawn for the width that there is.

import { make, makeIn, nameOf, replace, shapeOf } from "../base/dom";
import type { PageDrawing, PageLane } from "../data/documents";

const LABEL = 52,
  LANE = 24,
  BOX = 18,
  AXIS = 16,
  THINNEST = 2,
  LETTER = 6.7,
  LINKED = 12,
  OUTLINED = 5;
const KIND: Record<string, string> = { ranges: "range", ops: "op", inside: "op", calls: "call", GPU: "gpu" };

interface Box {
  label: string;
  number: number;
  decides: boolean;
  x: number;
  size: number;
}

export function lanesNode(drawing: PageDrawing): HTMLElement {
  const svg = shapeOf("lanes-shape");
  const spoken = `One call of ${drawing.region}, ${drawing.length}. ${drawing.decides ? `What decides: ${drawing.decides}. ` : ""}${drawing.others ? `Other GPU work: ${drawing.others}.` : ""}`;
  svg.setAttribute("aria-label", spoken);
  const node = make("figure", { class: "drawing" }, svg, legend(drawing));
  new ResizeObserver(() => draw(svg, drawing, node.clientWidth)).observe(node);
  return node;
}

function legend(drawing: PageDrawing): HTMLElement {
  const entry = (kind: string, text: string) =>
    text ? make("li", {}, make("span", { class: `key ${kind}`, "aria-hidden": "true" }), nameOf(text)) : null;
  return make("figcaption", {}, make("ul", { class: "keys" }, entry("decides", drawing.decides), entry("gpu", drawing.others)));
}

function draw(svg: SVGElement, drawing: PageDrawing, width: number): void {
  const room = width - LABEL - 1,
    scale = room / Math.max(drawing.length_ns, 1),
    height = drawing.lanes.length * LANE + AXIS;
  if (room <= 0) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", String(height));
  const boxes = drawing.lanes.map((lane) => placed(lane, scale, room));
  replace(
    svg,
    ...links(svg, drawing.lanes, boxes),
    ...drawing.lanes.flatMap((lane, at) => laneShapes(svg, lane, boxes[at], at * LANE, width)),
    text(svg, LABEL, height - 3, "0", "axis"),
    text(svg, width - 1, height - 3, drawing.length, "axis end"),
  );
}

// Where slices are drawn: one that is too short to be seen takes two pixels, and moves those behind it.
function placed(lane: PageLane, scale: number, room: number): Box[] {
  let free = 0;
  return lane.slices.map(([label, start, end, number, decides]) => {
    const from = Math.min(Math.max(start * scale, lane.slices.length > LINKED ? 0 : free), room - THINNEST);
    const size = Math.max(Math.min(end * scale, room) - from, THINNEST);
    free = from + size;
    return { label, number, decides, x: LABEL + from, size };
  });
}

function laneShapes(svg: SVGElement, lane: PageLane, boxes: Box[], top: number, width: number): SVGElement[] {
  const kind = KIND[lane.name] ?? "op";
  const last = [...boxes].sort((one, other) => Number(one.decides) - Number(other.decides)); // what decides is drawn last, above its neighbours
  return [
    text(svg, 0, top + BOX - 4, lane.name, "axis"),
    makeIn(svg, "line", { class: "grid", x1: LABEL, x2: width, y1: top + BOX + 1, y2: top + BOX + 1 }),
    ...last.flatMap((box) => {
      const words = box.number ? String(box.number) : box.label,
        fits = Math.floor((box.size - 4) / LETTER);
      const shown = words.length <= fits ? words : !box.number && fits >= 4 ? `${words.slice(0, fits - 1)}…` : "";
      const shape = makeIn(
        svg,
        "rect",
        {
          class: `slice ${kind}${box.decides ? " decides" : ""}${box.size < OUTLINED ? " thin" : ""}`,
          x: box.x,
          y: top,
          width: box.size,
          height: BOX,
        },
        makeIn(svg, "title", {}, box.number ? `${box.number} ${box.label}` : box.label),
      );
      return shown ? [shape, text(svg, box.x + 3, top + BOX - 5, shown, `inside${box.decides ? " decides" : ""}`)] : [shape];
    }),
  ];
}

// A thin line from each launch to what it launched, where these are few.
function links(svg: SVGElement, lanes: PageLane[], boxes: Box[][]): SVGElement[] {
  const calls = lanes.findIndex((lane) => lane.name === "calls"),
    gpu = lanes.findIndex((lane) => lane.name === "GPU");
  if (calls < 0 || gpu < 0 || boxes[gpu].length > LINKED) return [];
  return boxes[calls].flatMap((call) =>
    boxes[gpu]
      .filter((box) => box.number === call.number)
      .map((box) =>
        makeIn(svg, "line", {
          class: box.decides ? "link decides" : "link",
          x1: call.x + 1,
          y1: calls * LANE + BOX,
          x2: box.x + 1,
          y2: gpu * LANE,
        }),
      ),
  );
}

function text(svg: SVGElement, x: number, y: number, words: string, kind: string): SVGElement {
  return makeIn(svg, "text", { class: kind, x, y }, words);
}
