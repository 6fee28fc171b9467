// Numbers as text, the way units.py writes them. What is not known is a dash, never a zero.

const DASH = "–";

export function timeText(ns) {
  return scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "us"]], "ns");
}

export function bytesText(count) {
  return scaled(count, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "B");
}

export function flopsText(count) {
  return scaled(count, [[1e15, "PFLOP"], [1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"]], "FLOP");
}

export function percentText(part) {
  return known(part) ? `${(part * 100).toFixed(1)}%` : DASH;
}

export function numberText(value, digits = 0) {
  return known(value) ? value.toLocaleString("en", { maximumFractionDigits: digits }) : DASH;
}

function scaled(value, steps, base) {
  if (!known(value)) return DASH;
  const step = steps.find(([factor]) => Math.abs(value) >= factor);
  return step ? `${threeDigits(value / step[0])} ${step[1]}` : `${value.toFixed(0)} ${base}`;
}

function threeDigits(value) {
  const size = Math.abs(value);
  return size >= 100 ? numberText(Math.round(value)) : value.toFixed(size >= 10 ? 1 : 2);
}

function known(value) {
  return value !== null && value !== undefined;
}
