// Where the boxes of a flame graph are drawn: below what they are in, as wide as their share of the time.

import type { Box, Boxes } from "./flametree";

// In shares of the width. What is too thin to be drawn stands together in one place, so that no width is empty without a word.
export interface Placed {
  box: Box;
  from: number;
  share: number;
  ns: number;
  small: number; // how many parts of `box` stand here; 0: the box itself
}

// All boxes at least `thinnest` wide: those above the focus as wide as the whole, then what is inside it.
export function laidOut(boxes: Boxes, focus: Box, totals: Float64Array, thinnest: number): Placed[] {
  const time = (box: Box) => totals[box === boxes.root ? boxes.all.length : box.number];
  const placed: Placed[] = [];
  for (let box: Box | null = focus; box; box = box.above) placed.unshift({ box, from: 0, share: 1, ns: time(box), small: 0 });
  const place = (above: Placed) => {
    let from = above.from,
      small = 0,
      rest = 0;
    for (const part of above.box.parts) {
      const ns = time(part),
        share = (above.share * ns) / above.ns;
      if (ns > 0 && share >= thinnest) {
        const mine = { box: part, from, share, ns, small: 0 };
        placed.push(mine);
        from += share;
        place(mine);
      } else if (ns > 0) {
        small += 1;
        rest += ns;
      }
    }
    const share = (above.share * rest) / above.ns;
    if (small && share >= thinnest) placed.push({ box: above.box, from, share, ns: rest, small });
  };
  if (time(focus) > 0) place(placed[placed.length - 1]);
  return placed;
}

export function depthOf({ box, small }: Placed): number {
  return box.depth + (small ? 1 : 0);
}
