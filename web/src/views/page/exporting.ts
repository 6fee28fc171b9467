// Pictures of what is shown, and print; with several traces also what they are aligned by.

import "./exporting.css";
import { button, listOf, make, makeIn, shapeOf } from "../../base/dom";
import type { Context } from "../../core/context";
import { anchorOf, home, isChange } from "../../core/moving";
import { type Pen, type Picture, type Size, type SvgNode, SvgPen } from "../../core/pen";

export function exporting(context: Context): HTMLElement {
  const save = (kind: string, make: () => Promise<Blob> | Blob) => {
    const name = `${fileName(context)}.${kind}`;
    const act = async () => {
      try {
        download(await make(), name);
        context.say(`Saved ${name}.`);
      } catch (problem) {
        context.say(`No picture: ${(problem as Error).message}.`);
      }
    };
    return button(kind.toUpperCase(), act, { title: `Save what is shown as ${kind === "png" ? "a PNG" : "an SVG"} file` });
  };
  return make(
    "span",
    { class: "exporting" },
    aligning(context),
    save("png", () => pngOf(context)),
    save("svg", () => blobOf(svgOf(context))),
    button("print", () => window.print(), { title: "Print what is shown" }),
  );
}

function aligning(context: Context): HTMLElement | null {
  const anchors = context.compared?.anchors ?? [];
  if (anchors.length < 2) return null;
  const select = listOf("select", {}, anchors, ({ name }) => make("option", { value: name }, name));
  const own = make("option", {}, "this change");
  select.append(own);
  context.store.follow(["align"], () => {
    const name = anchorOf(context)?.name ?? "";
    own.hidden = own.disabled = !isChange(name);
    own.value = isChange(name) ? name : "change";
    select.value = name;
  });
  select.addEventListener("change", () => {
    context.store.set({ align: select.value === anchors[0].name ? "" : select.value });
    queueMicrotask(() => context.store.set({ view: home(context) }));
  });
  return make("label", { class: "aligning" }, "align by ", select);
}

function fileName({ traces }: Context): string {
  const titles = traces.map(({ entry }) => entry.title.replace(/\.(json|gz|zst|zip)\b/g, "")).join("-");
  return titles.replace(/[^\w.-]+/g, "_").slice(0, 100) || "trace";
}

export function download(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// What is shown as one picture: a line that says what it is, the timeline, what its colours mean, and the plot of the open tab. As SVG it is shapes and
// text; as PNG it has two pixels for each of the screen.

const LINE = 18, // of the key of colours
  LETTER = 8;
const HEAD = 26,
  EDGE = 8,
  SHARP = 2;
const FONT = "13px system-ui, sans-serif";
// What the style sheet says of a shape, and a file on its own must say itself.
const STYLES = (
  "fill fill-opacity stroke stroke-width stroke-dasharray stroke-opacity stroke-linejoin paint-order opacity visibility display " +
  "font-size font-family font-weight text-anchor dominant-baseline"
).split(" ");

async function pngOf(context: Context): Promise<Blob> {
  const svg = svgOf(context),
    [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)) * SHARP);
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  const canvas = make("canvas", { width, height }),
    address = URL.createObjectURL(blobOf(svg)),
    image = new Image();
  try {
    image.src = address;
    await image.decode();
    canvas.getContext("2d")?.drawImage(image, 0, 0);
  } finally {
    URL.revokeObjectURL(address);
  }
  return await new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for this browser"))));
  });
}

function svgOf(context: Context): SVGElement {
  const parts = shown(context),
    size = whole(parts),
    pen = new SvgPen(size, textWidth);
  head(context, pen, size);
  const svg = elementOf(pen.root);
  let top = HEAD;
  parts.forEach((picture, at) => {
    const inner = "paint" in picture ? painted(picture, at) : styled(picture.svg());
    if (inner) svg.append(inner);
    inner?.setAttribute("x", String(EDGE));
    inner?.setAttribute("y", String(top));
    top += sizeOf(picture).height + EDGE;
  });
  return svg;
}

function painted(picture: Picture & { paint(pen: Pen): void; size(): Size }, at: number): SVGElement {
  const pen = new SvgPen(picture.size(), textWidth, `clip${at}`);
  picture.paint(pen);
  return elementOf(pen.root);
}

function shown(context: Context): Picture[] {
  const seen = context.pictures.filter((picture) => sizeOf(picture).height > 0);
  const painted = seen.filter((picture) => "paint" in picture),
    plots = seen.filter((picture) => "svg" in picture);
  const key = painted.map((picture) => colourKey(context, sizeOf(picture).width));
  return [...painted, ...key, ...plots];
}

// What the colours mean, as the page says it below the timeline.
function colourKey(context: Context, width: number): Picture {
  const groups = [...document.querySelectorAll<HTMLElement>(".timeline .legend li")].map((item) => ({
    text: item.textContent ?? "",
    colour: item.querySelector<HTMLElement>(".swatch")?.dataset.colour ?? "",
  }));
  const paint = (pen: Pen) => {
    pen.font = FONT;
    pen.textBaseline = "middle";
    let [x, y] = [0, 0];
    for (const { text, colour } of groups) {
      const wide = pen.measureText(text).width + 30;
      if (x + wide > width) [x, y] = [0, y + LINE];
      pen.fillStyle = colour;
      pen.fillRect(x, y + 4, 10, 10);
      pen.fillStyle = context.colours.of("text");
      pen.fillText(text, x + 14, y + 9);
      x += wide;
    }
  };
  const letters = groups.reduce((sum, { text }) => sum + text.length * LETTER + 30, 0);
  return { title: "Colours", size: () => ({ width, height: LINE * Math.ceil(letters / width) }), paint };
}

function sizeOf(picture: Picture): Size {
  if ("paint" in picture) return picture.size();
  const box = picture.svg()?.getBoundingClientRect();
  return { width: box?.width ?? 0, height: box?.height ?? 0 };
}

function whole(parts: Picture[]): Size {
  const sizes = parts.map(sizeOf);
  return {
    width: Math.ceil(Math.max(300, ...sizes.map(({ width }) => width)) + 2 * EDGE),
    height: Math.ceil(HEAD + sizes.reduce((sum, { height }) => sum + height + EDGE, 0)),
  };
}

function head(context: Context, pen: Pen, { width, height }: Size): void {
  pen.fillStyle = context.colours.of("back");
  pen.fillRect(0, 0, width, height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  pen.fillStyle = context.colours.of("text");
  const title = context.traces.map(({ entry }) => entry.title).join(" · ");
  const about = context.traces.length === 1 ? ` · ${context.traces[0].entry.headline}` : "";
  pen.fillText(`${title}${about}`, EDGE, HEAD / 2, width - 2 * EDGE);
}

function textWidth(text: string, font: string): number {
  const pen = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  pen.font = font;
  return pen.measureText(text).width;
}

function elementOf({ tag, attributes, children }: SvgNode): SVGElement {
  const inside = children.map((child) => (typeof child === "string" ? child : elementOf(child)));
  return makeIn(shapeOf("lanes-shape"), tag, attributes, ...inside);
}

// A copy that looks the same without the page's style sheet.
function styled(svg: SVGSVGElement | null): SVGElement | null {
  if (!svg) return null;
  const copy = svg.cloneNode(true) as SVGSVGElement,
    { width, height } = svg.getBoundingClientRect();
  const originals = [svg, ...svg.querySelectorAll<SVGElement>("*")],
    copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  originals.forEach((original, at) => {
    const style = getComputedStyle(original);
    for (const name of STYLES) copies[at].setAttribute(name, style.getPropertyValue(name));
    copies[at].removeAttribute("class");
  });
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.setAttribute("overflow", "visible");
  return copy;
}

function blobOf(svg: SVGElement): Blob {
  return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
}
