// Every bar of a page: a track, and parts of it, each from somewhere to somewhere. What a whole track is, its user says.

import "./bars.css";
import { type Attributes, make } from "../../base/dom";
import type { Bar } from "../../data/documents";

export interface BarPart {
  to: number; // shares of the track
  from?: number;
  colour?: string; // any background
  kind?: string; // a class
  title?: string;
}

export function bar(parts: number | readonly BarPart[], attributes: Attributes = {}): HTMLElement {
  const every = typeof parts === "number" ? [{ to: parts }] : parts;
  const kind = attributes.class ? `bar ${attributes.class}` : "bar";
  return make("span", { "aria-hidden": "true", ...attributes, class: kind }, every.map(partNode));
}

function partNode({ from = 0, to, colour, kind, title }: BarPart): HTMLElement {
  const node = make("span", { class: kind, title });
  const [low, high] = [from, to].map((share) => Math.min(Math.max(share, 0), 1) * 100);
  node.style.left = `${low}%`;
  node.style.width = `${Math.max(high - low, 0)}%`;
  if (colour) node.style.background = colour;
  return node;
}

export function stacked(shares: readonly (Omit<BarPart, "from" | "to"> & { share: number })[]): BarPart[] {
  let from = 0;
  return shares.map(({ share, ...rest }) => {
    const part = { ...rest, from, to: from + share };
    from = part.to;
    return part;
  });
}

export function shareBar(share: number, kind = "", colour = ""): HTMLElement {
  return bar([{ to: share, kind: "fill", colour }], { class: kind });
}

// A time with its interval; the whole track is the longest, a dashed line what it is compared with.
export function spanBar({ low, at, high, kind = "" }: Bar, longest: number, base?: number): HTMLElement {
  const part = (from: number, to: number, kind: string) => ({ from: from / longest, to: to / longest, kind });
  const dashed = base === undefined ? [] : [part(base, base, "base")];
  return bar([part(0, at, "fill"), part(low, high, "interval"), ...dashed], { class: `spanbar ${kind.replaceAll(" ", "-")}` });
}
