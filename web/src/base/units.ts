// Numbers as text, the way units.py writes them. What is not known is a dash, never a zero.

const DASH = "–";
type Amount = number | null | undefined;

export function timeText(ns: Amount): string {
  return scaled(ns, ["ns", "us", "ms", "s"]);
}

export function bytesText(count: Amount): string {
  return scaled(count, ["B", "kB", "MB", "GB", "TB"], 1); // bytes are summed
}

// Bytes of a second, from 10^9 bytes of one.
export function rateText(gbps: Amount): string {
  return known(gbps) ? `${bytesText(gbps * 1e9)}/s` : DASH;
}

export function flopsText(count: Amount): string {
  return scaled(count, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);
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

// Each unit is a thousand of the one before; `digits` are those of a number of 100 and more.
function scaled(value: Amount, units: readonly string[], digits = 0): string {
  if (!known(value)) return DASH;
  const at = units.findLastIndex((_, power) => Math.abs(value) >= 1000 ** power);
  if (at <= 0) return `${value.toFixed(0)} ${units[0]}`;
  const number = value / 1000 ** at,
    size = Math.abs(number);
  const large = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${size >= 100 ? number.toLocaleString("en", large) : number.toFixed(size >= 10 ? 1 : 2)} ${units[at]}`;
}

function known(value: Amount): value is number {
  return value !== null && value !== undefined;
}
