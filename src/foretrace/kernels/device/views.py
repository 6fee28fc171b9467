"""Several tensors of one shape, viewed as (outer, rows, columns) without a copy.

Dimensions that are contiguous with each other in every tensor merge. Contiguous tensors are a
single row, the halves of a packed tensor rows with a stride, a batch of halves a third dimension.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

Shape = tuple[int, ...]


class StridedView(NamedTuple):
    """Sizes (outer, rows, columns), and for each tensor its strides over them in the same order."""

    outer: int
    rows: int
    cols: int
    strides: tuple[tuple[int, int, int], ...]

    def divisible_by(self, count: int) -> bool:
        """Whether columns are adjacent and the rest divisible by `count`: loads can be as wide."""
        return self.cols % count == 0 and all(
            col == 1 and row % count == 0 and outer % count == 0 for outer, row, col in self.strides
        )

    @property
    def adjacent(self) -> bool:
        """Whether the columns of every tensor lie side by side."""
        return all(col == 1 for _, _, col in self.strides)


@lru_cache(maxsize=1024)
def view_of(sizes: Shape, strides: tuple[Shape, ...]) -> StridedView | None:
    """The view of tensors of shape `sizes` with these strides; None when it needs more dimensions.

    Dimensions are ordered by the strides of the last tensor, the output: a transposed pair gives a
    transposed result, and all three then merge into one row.
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
    return StridedView(outer, rows, cols, tuple(zip(a, b, c, strict=True)))
