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
    1, // bytes are summed
  );
}

// Bytes of a second, from 10^9 bytes of one.
export function rateText(gbps: Amount): string {
  return known(gbps) ? `${bytesText(gbps * 1e9)}/s` : DASH;
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
  if (!known(part)) return DASH;
  return part > 0 && part < 0.0005 ? "<0.1%" : `${(part * 100).toFixed(1)}%`;
}

export function numberText(value: Amount, digits = 0): string {
  return known(value) ? value.toLocaleString("en", { maximumFractionDigits: digits }) : DASH;
}

// What is too long is cut in the middle: names that differ do so at their ends as often as at their beginning.
export function cutText(text: string, letters: number): string {
  if (text.length <= letters) return text;
  const tail = Math.floor((letters - 1) * 0.4);
  return `${text.slice(0, letters - 1 - tail)}…${tail ? text.slice(-tail) : ""}`;
}

// `digits` are those of a number of 100 and more.
function scaled(value: Amount, steps: [number, string][], base: string, digits = 0): string {
  if (!known(value)) return DASH;
  const step = steps.find(([factor]) => Math.abs(value) >= factor);
  return step ? `${threeDigits(value / step[0], digits)} ${step[1]}` : `${value.toFixed(0)} ${base}`;
}

function threeDigits(value: number, digits: number): string {
  const size = Math.abs(value);
  const large = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return size >= 100 ? value.toLocaleString("en", large) : value.toFixed(size >= 10 ? 1 : 2);
}

function known(value: Amount): value is number {
  return value !== null && value !== undefined;
}
