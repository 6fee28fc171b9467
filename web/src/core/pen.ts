// What drawings draw with: a part of what a canvas can do, so that the same drawing also makes an SVG file.

type SettingNames = "fillStyle" | "strokeStyle" | "lineWidth" | "globalAlpha" | "font" | "textBaseline";
type Paths = "beginPath" | "moveTo" | "lineTo" | "bezierCurveTo" | "closePath" | "rect" | "fill" | "stroke" | "clip";
type Shapes = "fillRect" | "strokeRect" | "save" | "restore" | "translate" | "setLineDash";

export interface Pen extends Pick<CanvasRenderingContext2D, SettingNames | Paths | Shapes> {
  fillText(text: string, x: number, y: number, most?: number): void;
  measureText(text: string): { width: number };
}

export type Size = { width: number; height: number };

// A view that can be saved: one that paints, or an <svg> of the page.
export type Picture = { title: string } & ({ size(): Size; paint(pen: Pen): void } | { svg(): SVGSVGElement | null });

// A pen that writes an SVG file: the same drawing as on a canvas, as shapes. It makes plain nodes; a view turns them into elements.

export interface SvgNode {
  tag: string;
  attributes: Record<string, string | number>;
  children: (SvgNode | string)[];
}

interface Settings {
  fillStyle: string | CanvasGradient | CanvasPattern;
  strokeStyle: string | CanvasGradient | CanvasPattern;
  lineWidth: number;
  globalAlpha: number;
  font: string;
  textBaseline: CanvasTextBaseline;
}

const START: Settings = {
  fillStyle: "#000000",
  strokeStyle: "#000000",
  lineWidth: 1,
  globalAlpha: 1,
  font: "10px sans-serif",
  textBaseline: "alphabetic",
};
// How far below the given height the foot of a line lies, in font sizes: not every program knows `dominant-baseline`.
const FEET: Partial<Record<CanvasTextBaseline, number>> = { top: 0.8, hanging: 0.8, middle: 0.35, bottom: -0.2, ideographic: -0.2 };

export class SvgPen implements Pen {
  fillStyle = START.fillStyle;
  strokeStyle = START.strokeStyle;
  lineWidth = START.lineWidth;
  globalAlpha = START.globalAlpha;
  font = START.font;
  textBaseline = START.textBaseline;
  readonly root: SvgNode;
  private inside: SvgNode;
  private saved: (Settings & { inside: SvgNode; x: number; y: number; dash: number[] })[] = [];
  private x = 0;
  private y = 0;
  private dash: number[] = [];
  private path: string[] = [];
  private clips = 0;

  // `widths` measures a text in a font; only a page can. `prefix` keeps the names of clips apart when drawings are joined.
  constructor(
    size: Size,
    private readonly widths: (text: string, font: string) => number,
    private readonly prefix = "clip",
  ) {
    const { width, height } = size;
    this.root = { tag: "svg", attributes: { width, height, viewBox: `0 0 ${width} ${height}` }, children: [] };
    this.inside = this.root;
  }

  save(): void {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textBaseline, inside, x, y, dash } = this;
    this.saved.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textBaseline, inside, x, y, dash });
  }

  restore(): void {
    const last = this.saved.pop();
    if (last) Object.assign(this, last);
  }

  translate(x: number, y: number): void {
    this.x += x;
    this.y += y;
  }

  setLineDash(dash: Iterable<number>): void {
    this.dash = [...dash];
  }

  beginPath(): void {
    this.path = [];
  }

  moveTo(x: number, y: number): void {
    this.path.push(`M${this.at(x, y)}`);
  }

  lineTo(x: number, y: number): void {
    this.path.push(`${this.path.length ? "L" : "M"}${this.at(x, y)}`);
  }

  bezierCurveTo(x1: number, y1: number, x2: number, y2: number, x: number, y: number): void {
    this.path.push(`C${this.at(x1, y1)} ${this.at(x2, y2)} ${this.at(x, y)}`);
  }

  closePath(): void {
    this.path.push("Z");
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.path.push(`M${this.at(x, y)}h${short(width)}v${short(height)}h${short(-width)}z`);
  }

  fill(): void {
    if (typeof this.fillStyle === "string") this.add("path", { d: this.path.join(""), fill: this.fillStyle });
  }

  stroke(): void {
    if (typeof this.strokeStyle === "string") this.add("path", { d: this.path.join(""), fill: "none", ...this.line() });
  }

  // What follows is cut by the path, until `restore`.
  clip(): void {
    const id = `${this.prefix}-${this.clips++}`;
    const shape: SvgNode = { tag: "path", attributes: { d: this.path.join("") }, children: [] };
    this.inside.children.push({ tag: "clipPath", attributes: { id }, children: [shape] });
    const cut: SvgNode = { tag: "g", attributes: { "clip-path": `url(#${id})` }, children: [] };
    this.inside.children.push(cut);
    this.inside = cut;
  }

  // Rectangles of one colour that follow each other become one path: a timeline has tens of thousands.
  fillRect(x: number, y: number, width: number, height: number): void {
    if (typeof this.fillStyle !== "string" || !(width && height)) return;
    const d = `M${this.at(x, y)}h${short(width)}v${short(height)}h${short(-width)}z`;
    const last = this.inside.children.at(-1);
    const joins = typeof last === "object" && last.attributes.class === "boxes" && this.globalAlpha === 1;
    if (joins && last.attributes.fill === this.fillStyle && !("opacity" in last.attributes)) last.attributes.d += d;
    else this.add("path", { class: "boxes", d, fill: this.fillStyle });
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    const box = { x: short(x + this.x), y: short(y + this.y), width: short(width), height: short(height) };
    if (typeof this.strokeStyle === "string") this.add("rect", { ...box, fill: "none", ...this.line() });
  }

  fillText(text: string, x: number, y: number, most?: number): void {
    const [, size, family] = this.font.match(/^([\d.]+)px\s+(.+)$/) ?? ["", "10", "sans-serif"];
    const foot = y + this.y + (FEET[this.textBaseline] ?? 0) * Number(size);
    const squeezed = most !== undefined && this.measureText(text).width > most;
    this.add(
      "text",
      {
        x: short(x + this.x),
        y: short(foot),
        "font-size": size,
        "font-family": family,
        ...(squeezed ? { textLength: short(most), lengthAdjust: "spacingAndGlyphs" } : {}),
        fill: typeof this.fillStyle === "string" ? this.fillStyle : "#000000",
      },
      written(text),
    );
  }

  measureText(text: string): { width: number } {
    return { width: this.widths(text, this.font) };
  }

  private add(tag: string, attributes: SvgNode["attributes"], ...children: string[]): void {
    const opacity = this.globalAlpha < 1 ? { opacity: short(this.globalAlpha) } : {};
    this.inside.children.push({ tag, attributes: { ...attributes, ...opacity }, children });
  }

  private line(): SvgNode["attributes"] {
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    return { stroke: String(this.strokeStyle), "stroke-width": this.lineWidth, ...dash };
  }

  private at(x: number, y: number): string {
    return `${short(x + this.x)} ${short(y + this.y)}`;
  }
}

function short(value: number): number {
  return Math.round(value * 100) / 100;
}

// XML has no place for control characters and halves of characters.
function written(text: string): string {
  return text.replace(/[\p{Cs}\ufffe\uffff]|(?![\t\n\r])\p{Cc}/gu, "\ufffd");
}
