// Bars: a share of something, or a time with its interval. Every bar of a page is one of these.

import "./bars.css";
import { make } from "../../base/dom";

// A part of the largest, from the left.
export function shareBar(share: number, kind = "", colour = ""): HTMLElement {
  const filled = part("fill", 0, Math.min(Math.max(share, 0), 1));
  if (colour) filled.style.background = colour;
  return make("span", { class: `bar ${kind}`.trim(), "aria-hidden": "true" }, filled);
}

interface SpanOf {
  at: number;
  low?: number; // the interval, where there is one
  high?: number;
  longest: number; // what the whole track stands for
  base?: number; // what it is compared with: a dashed line
  kind: string;
}

// A time with its interval.
export function spanBar({ low, at, high, longest, base, kind }: SpanOf): HTMLElement {
  return make(
    "span",
    { class: `spanbar ${kind.replaceAll(" ", "-")}`, "aria-hidden": "true" },
    part("fill", 0, at / longest),
    low !== undefined && high !== undefined ? part("interval", low / longest, high / longest) : null,
    base === undefined ? null : part("base", base / longest, base / longest),
  );
}

function part(kind: string, from: number, to: number): HTMLElement {
  const node = make("span", { class: kind });
  node.style.left = `${from * 100}%`;
  node.style.width = `${(to - from) * 100}%`;
  return node;
}
