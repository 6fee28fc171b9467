// Arithmetic that several views need.

// The least power of two that is not below `least`; at least 1.
export function powerOfTwo(least: number): number {
  return least <= 1 ? 1 : 2 ** Math.ceil(Math.log2(least));
}
