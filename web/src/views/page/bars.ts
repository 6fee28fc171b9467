// Every bar of a page: a track, and parts of it, each from somewhere to somewhere. What a whole track is, its user says.

import "./bars.css";
import { type Attributes, make } from "../../base/dom";

export interface BarPart {
  to: number; // shares of the track
  from?: number;
  colour?: string; // any background
  kind?: string; // a class
  title?: string;
}

// A share from the left, or several parts.
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

// Shares that follow each other.
export function stacked(shares: readonly (Omit<BarPart, "from" | "to"> & { share: number })[]): BarPart[] {
  let from = 0;
  return shares.map(({ share, ...rest }) => {
    const part = { ...rest, from, to: from + share };
    from = part.to;
    return part;
  });
}

// A part of the whole, from the left.
export function shareBar(share: number, kind = "", colour = ""): HTMLElement {
  return bar([{ to: share, kind: "fill", colour }], { class: kind });
}

interface SpanOf {
  at: number;
  low?: number; // the interval, where there is one
  high?: number;
  longest: number; // what the whole track stands for
  base?: number; // what it is compared with: a dashed line
  kind?: string;
}

// A time with its interval.
export function spanBar({ low, at, high, longest, base, kind = "" }: SpanOf): HTMLElement {
  const interval = low !== undefined && high !== undefined ? [{ from: low / longest, to: high / longest, kind: "interval" }] : [];
  const dashed = base === undefined ? [] : [{ from: base / longest, to: base / longest, kind: "base" }];
  return bar([{ to: at / longest, kind: "fill" }, ...interval, ...dashed], { class: `spanbar ${kind.replaceAll(" ", "-")}` });
}
