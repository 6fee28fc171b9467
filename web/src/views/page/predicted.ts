// The time of a step now and with a fix.

import { make } from "../../base/dom";
import { timeText } from "../../base/units";
import type { Shown } from "../../core/context";
import type { FixCard, FixEntry } from "../../data/documents";
import { type BarPart, bar } from "./bars";

// On one scale, which is the step now. The fix that comes second has the step with both.
export function times({ entry }: Shown, card: FixCard): HTMLElement | null {
  const { step } = entry.look;
  const { ns, at_most_ns, after_ns, label } = card;
  if (step && label === "THEN" && after_ns !== null)
    return drawn(`after that about ${timeText(after_ns)}`, step.ns, [
      after_ns,
      card.after_low_ns ?? after_ns,
      card.after_high_ns ?? after_ns,
    ]);
  const [low, high] = [card.low_ns ?? ns ?? 0, card.high_ns ?? ns ?? 0];
  if (step && ns !== null) return drawn(`${timeText(step.ns)} → about ${timeText(ns)}`, step.ns, [ns, low, high]);
  return at_most_ns === null ? null : make("span", { class: "times" }, make("strong", {}, `saves at most ${timeText(at_most_ns)}`));
}

// The bars of a table of fixes, on one scale.
export function predictedBar(now: number, fixes: readonly FixEntry[], at: number): BarPart[] {
  const { ns, low_ns, high_ns } = fixes[at];
  return parts(now, [ns, low_ns, high_ns], Math.max(now, ...fixes.map((fix) => fix.high_ns)));
}

type Times = readonly [ns: number, low: number, high: number];

function parts(now: number, [ns, low, high]: Times, whole: number): BarPart[] {
  return [
    { to: now / whole, kind: "now" },
    { to: ns / whole, kind: "then" },
    ...(high > low ? [{ from: low / whole, to: high / whole, kind: "interval" }] : []),
  ];
}

function drawn(text: string, now: number, times: Times): HTMLElement {
  const [, low, high] = times;
  const title = high > low ? `predicted ${timeText(low)} to ${timeText(high)}` : undefined;
  return make(
    "span",
    { class: "times", title },
    make("strong", {}, text),
    " ",
    bar(parts(now, times, Math.max(now, high) || 1), { class: "predicted" }),
  );
}
