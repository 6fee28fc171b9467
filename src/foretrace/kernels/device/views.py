"""Several tensors of one shape, seen as (outer, rows, columns) without a copy.

Dimensions that lie end to end in every tensor merge into one. Contiguous tensors become a single
row; the halves of a packed tensor become rows with a stride; a batch of such becomes a third
dimension.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

Shape = tuple[int, ...]


class View(NamedTuple):
    """Sizes (outer, rows, columns), and for each tensor its strides over them in the same order."""

    outer: int
    rows: int
    cols: int
    strides: tuple[tuple[int, int, int], ...]

    def divisible_by(self, count: int) -> bool:
        """Whether columns are adjacent and everything else is a multiple of `count`, so that loads
        can be that wide.
        """
        return self.cols % count == 0 and all(
            col == 1 and row % count == 0 and outer % count == 0 for outer, row, col in self.strides
        )

    @property
    def adjacent(self) -> bool:
        """Whether the columns of every tensor lie side by side."""
        return all(col == 1 for _, _, col in self.strides)


@lru_cache(maxsize=1024)
def view_of(sizes: Shape, strides: tuple[Shape, ...]) -> View | None:
    """The three-dimensional view of tensors of shape `sizes` with these strides; None when more
    dimensions are needed.

    Dimensions are ordered by the last tensor's strides, which is the output: a transposed pair
    gives a transposed result, and all three then merge into one row.
    """
    dims = [(size, [s[axis] for s in strides]) for axis, size in enumerate(sizes) if size != 1]
    dims.sort(key=lambda dim: dim[1][-1], reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for size, steps in dims:
        if merged and all(
            before == step * size for before, step in zip(merged[-1][1], steps, strict=True)
        ):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    if len(merged) > 3:
        return None
    padded = [(1, [0] * len(strides))] * (3 - len(merged)) + merged
    if not merged:
        padded[-1] = (1, [1] * len(strides))
    (outer, a), (rows, b), (cols, c) = padded
    return View(outer, rows, cols, tuple(zip(a, b, c, strict=True)))
