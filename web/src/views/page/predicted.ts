// The time of a step now and with a fix.

import { make } from "../../base/dom";
import { timeText } from "../../base/units";
import type { Shown } from "../../core/context";
import type { FixCard } from "../../data/documents";
import { type BarPart, bar } from "./bars";

// On one scale, which is the step now. The fix that comes second has the step with both.
export function times({ entry }: Shown, card: FixCard): HTMLElement | null {
  const { step } = entry.look;
  const { ns, at_most_ns, after_ns, label } = card;
  if (step && label === "THEN" && after_ns !== null)
    return drawn(`after that about ${timeText(after_ns)}`, step.ns, [after_ns, after_ns, after_ns]);
  const [low, high] = [card.low_ns ?? ns ?? 0, card.high_ns ?? ns ?? 0];
  if (step && ns !== null) return drawn(`${timeText(step.ns)} → about ${timeText(ns)}`, step.ns, [ns, low, high]);
  return at_most_ns === null ? null : make("span", { class: "times" }, make("strong", {}, `saves at most ${timeText(at_most_ns)}`));
}

function drawn(text: string, now: number, [ns, low, high]: readonly [number, number, number]): HTMLElement {
  const whole = Math.max(now, high) || 1;
  const parts: BarPart[] = [
    { to: now / whole, kind: "now" },
    { to: ns / whole, kind: "then" },
    ...(high > low ? [{ from: low / whole, to: high / whole, kind: "interval" }] : []),
  ];
  const title = high > low ? `predicted ${timeText(low)} to ${timeText(high)}` : undefined;
  return make("span", { class: "times", title }, make("strong", {}, text), " ", bar(parts, { class: "predicted" }));
}
