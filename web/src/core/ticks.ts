// The ticks of a ruler. Where two neighbours would read the same, a tick is written in two parts: `237 ms + 40 us`.

import { ticks as niceTimes } from "d3-array";

type Tick = { time: number; label: string };

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "us"],
  [1, "ns"],
];
const MOST_DIGITS = 4; // of a number that is read at a glance

const LETTER = 6.7; // pixels of a letter of the ruler
const APART = 12; // pixels between two labels

// Ticks on a ruler of this width, as many as have room for their labels.
export function fittingTicks(from: number, to: number, width: number): Tick[] {
  for (let count = Math.max(Math.floor(width / 90), 1); ; count--) {
    const found = ticks(from, to, count);
    const room = found.length > 1 ? ((found[1].time - found[0].time) / (to - from)) * width : width;
    if (count <= 1 || found.every(({ label }) => label.length * LETTER + APART <= room)) return found;
  }
}

export function ticks(from: number, to: number, count: number): Tick[] {
  const times = niceTimes(from, to, Math.min(Math.max(count, 1), Math.max(to - from, 1)));
  const whole = [...new Set(times.map(Math.round))];
  const step = whole.length > 1 ? whole[1] - whole[0] : Math.max(Math.abs(whole[0] ?? 1), 1);
  const plain = whole.every((time) => digits(time) <= MOST_DIGITS);
  return whole.map((time) => ({ time, label: plain ? exactText(time) : partsText(time, step) }));
}

// The unit of a step splits a time: what is a thousand of it and more, and the rest.
function partsText(time: number, step: number): string {
  const [unit] = UNITS.find(([factor]) => factor <= step) ?? [1, "ns"];
  const size = Math.abs(time);
  const rest = size % (unit * 1000);
  const head = size - rest;
  const sign = time < 0 ? "−" : "";
  if (!head || !rest) return sign + exactText(size);
  return `${sign}${exactText(head)} ${sign || "+"} ${exactText(rest)}`;
}

function exactText(time: number): string {
  if (time === 0) return "0";
  const size = Math.abs(time);
  const [factor, unit] = UNITS.find(([each]) => each <= size) ?? [1, "ns"];
  const decimals = Math.round(Math.log10(factor));
  const number = (size / factor).toFixed(decimals);
  return `${time < 0 ? "−" : ""}${decimals ? number.replace(/\.?0+$/, "") : number} ${unit}`;
}

function digits(time: number): number {
  return exactText(time).replace(/[^\d]/g, "").replace(/^0+/, "").length;
}
