// Numbers as text, the way units.py writes them. What is not known is a dash, never a zero.

const DASH = "–";
type Amount = number | null | undefined;

export function timeText(ns: Amount): string {
  return scaled(
    ns,
    [
      [1e9, "s"],
      [1e6, "ms"],
      [1e3, "us"],
    ],
    "ns",
  );
}

export function bytesText(count: Amount): string {
  return scaled(
    count,
    [
      [1e12, "TB"],
      [1e9, "GB"],
      [1e6, "MB"],
      [1e3, "kB"],
    ],
    "B",
  );
}

export function flopsText(count: Amount): string {
  return scaled(
    count,
    [
      [1e15, "PFLOP"],
      [1e12, "TFLOP"],
      [1e9, "GFLOP"],
      [1e6, "MFLOP"],
      [1e3, "kFLOP"],
    ],
    "FLOP",
  );
}

export function percentText(part: Amount): string {
  return known(part) ? `${(part * 100).toFixed(1)}%` : DASH;
}

export function numberText(value: Amount, digits = 0): string {
  return known(value) ? value.toLocaleString("en", { maximumFractionDigits: digits }) : DASH;
}

function scaled(value: Amount, steps: [number, string][], base: string): string {
  if (!known(value)) return DASH;
  const step = steps.find(([factor]) => Math.abs(value) >= factor);
  return step ? `${threeDigits(value / step[0])} ${step[1]}` : `${value.toFixed(0)} ${base}`;
}

function threeDigits(value: number): string {
  const size = Math.abs(value);
  return size >= 100 ? numberText(Math.round(value)) : value.toFixed(size >= 10 ? 1 : 2);
}

function known(value: Amount): value is number {
  return value !== null && value !== undefined;
}
