// One flame graph: boxes drawn at the width they have. The arrows go from box to box, Enter chooses.

import "./flame.css";
import { make, makeIn, nameOf, replace } from "../../base/dom";
import { cutText, percentText } from "../../base/units";
import { type Box, type Boxes, depthOf, labelOf, laidOut, type Placed } from "../../core/flame";
import { type Plot, plot, rove } from "../page/plotting";

const BOX = 20; // pixels high
const THINNEST = 2; // pixels: narrower parts stand together
const LETTER = 7; // pixels of a letter, about
const ENGINE = /^autograd::engine::evaluate_function: /; // before the name of the node: nothing else would fit into a box

export interface Flames {
  measure: () => string; // what the whole is: `GPU time`
  text: (amount: number) => string;
  left: () => string; // what is not in the page
  choose: (box: Box) => void;
  back: () => void; // all of it again
  colour?: (box: Box) => string | undefined;
  isFound?: (box: Box) => boolean;
  turned?: HTMLElement; // drawn upwards: what is inside stands above; the line below the plot is that of another
}

export class FlameGraph {
  readonly plot: Plot;
  readonly line: HTMLElement;
  private boxes: Boxes | null = null;
  private focus: Box | null = null;
  private pass = "";
  private skip = 0; // outermost levels that are not drawn
  private deepest = 0;
  private whole = 0;
  private placed: Placed[] = [];
  private shapes: SVGElement[] = [];

  constructor(
    room: HTMLElement,
    private readonly flames: Flames,
  ) {
    this.plot = plot("Flame graph", "flame", (svg, width) => this.paint(svg, width));
    this.line = flames.turned ?? make("p", { class: "plot-line faint" });
    room.append(this.plot.node, flames.turned ? "" : this.line);
    this.plot.svg.addEventListener("keydown", (event) => this.key(event));
  }

  // Widened to a box, and of one pass alone (empty: of all).
  show(boxes: Boxes, focus: Box | null, pass: string, label: string, skip = 0): void {
    Object.assign(this, { boxes, focus, pass, skip });
    this.plot.svg.setAttribute("aria-label", label);
    this.plot.draw();
  }

  private paint(svg: SVGSVGElement, width: number): void {
    if (!this.boxes) return;
    const { boxes, focus } = this,
      pass = boxes.passes.indexOf(this.pass);
    const held = this.shapes.indexOf(document.activeElement as SVGElement) >= 0;
    const totals = boxes.totals(pass),
      every = laidOut(boxes, focus ?? boxes.root, totals, THINNEST / width);
    this.whole = totals[boxes.all.length];
    this.placed = every.filter((each) => depthOf(each) >= this.skip);
    this.deepest = Math.max(this.skip - 1, ...this.placed.map(depthOf));
    this.shapes = this.placed.map((each) => this.boxShape(svg, each, width));
    svg.setAttribute("height", String((this.deepest + 1 - this.skip) * BOX));
    replace(svg, this.shapes);
    const found = this.placed.findIndex(({ box, small }) => box === focus && !small),
      at = Math.max(found, 0);
    rove(this.shapes, at);
    if (!this.flames.turned) this.read(this.placed[at]);
    if (held) this.shapes[at]?.focus();
  }

  // A box is an <svg> of its own, so that it cuts its text.
  private boxShape(svg: SVGElement, placed: Placed, width: number): SVGElement {
    const { box, from, share, small } = placed,
      name = this.name(placed),
      room = share * width;
    const rect = makeIn(svg, "rect", { width: "100%", height: BOX - 1 });
    const colour = small ? undefined : this.flames.colour?.(box);
    if (colour) (rect as SVGRectElement).style.fill = colour;
    const level = this.flames.turned ? this.deepest - depthOf(placed) : depthOf(placed) - this.skip;
    const frame = { x: from * width, y: level * BOX, width: room, height: BOX };
    const words = this.words(placed),
      about = { class: this.classOf(placed), ...frame, role: "button", "aria-label": words };
    const made = makeIn(svg, "svg", about, makeIn(svg, "title", {}, words), rect);
    const said = cutText(name.replace(ENGINE, ""), Math.floor((room - 6) / LETTER));
    if (room > 4 * LETTER) made.append(makeIn(svg, "text", { x: 4, y: BOX - 6 }, said));
    made.addEventListener("click", () => this.flames.choose(box));
    made.addEventListener("pointerenter", () => this.read(placed));
    made.addEventListener("focus", () => this.read(placed));
    return made;
  }

  private classOf({ box, small }: Placed): string {
    const back = box.kind === "pass" ? " passed" : this.skip && box === this.focus ? " middle" : "";
    return `box ${small ? "small" : box.kind}${back}${!small && this.flames.isFound?.(box) ? " found" : ""}`;
  }

  private name({ box, small }: Placed): string {
    if (small) return `${small} smaller`;
    return box.kind === "all" ? `all ${this.flames.measure()}` : labelOf(box);
  }

  private words(placed: Placed): string {
    const { measure, text } = this.flames,
      whole = this.whole || placed.ns;
    const where = placed.small ? `${placed.small} smaller parts of ${labelOf(placed.box)}` : this.name(placed);
    return `${where}: ${text(placed.ns)}, ${percentText(placed.ns / whole)} of ${measure()}${this.byPass(placed)}`;
  }

  // What of it is forward, backward and so on, where it is more than one.
  private byPass({ box, small }: Placed): string {
    if (!this.boxes || small || this.pass) return "";
    const { boxes } = this,
      sums = boxes.passes.map((pass, at) => ({ pass, ns: boxes.timeIn(box, at) })).filter(({ ns }) => ns > 0);
    return sums.length > 1 ? ` (${sums.map(({ pass, ns }) => `${pass} ${this.flames.text(ns)}`).join(", ")})` : "";
  }

  private read(placed: Placed | undefined): void {
    const words = placed?.ns ? nameOf(`${this.words(placed)}.`) : `The recording has no ${this.flames.measure()}.`;
    replace(this.line, words, this.flames.left());
  }

  private key(event: KeyboardEvent): void {
    const at = this.shapes.indexOf(document.activeElement as SVGElement),
      placed = this.placed[at];
    if (!placed || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = this.next(placed, event.key);
    if (event.key === "Enter" || event.key === " ") this.flames.choose(placed.box);
    else if (event.key === "Escape") this.flames.back();
    else if (next >= 0) {
      rove(this.shapes, next);
      this.shapes[next].focus();
    } else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    event.stopPropagation(); // the arrows are the timeline's elsewhere
  }

  private next(placed: Placed, key: string): number {
    const depth = depthOf(placed),
      inward = this.flames.turned ? "ArrowUp" : "ArrowDown";
    const level = (wanted: number) => this.placed.filter((each) => depthOf(each) === wanted).sort((a, b) => a.from - b.from);
    const beside = level(depth),
      here = beside.indexOf(placed);
    const [from, to] = [placed.from - 1e-9, placed.from + placed.share + 1e-9];
    const found = {
      ArrowLeft: beside[here - 1],
      ArrowRight: beside[here + 1],
      [inward === "ArrowDown" ? "ArrowUp" : "ArrowDown"]: level(depth - 1).findLast((each) => each.from <= placed.from + 1e-9),
      [inward]: level(depth + 1).find((each) => each.from >= from && each.from + each.share <= to),
    }[key];
    return found ? this.placed.indexOf(found) : -1;
  }
}
