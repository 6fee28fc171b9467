"""Boosted regression trees: small trees, each fitted to what those before it left over.

Libraries for this are large; the map needs a few dozen trees over columns of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

Array = np.ndarray[Any, np.dtype[Any]]
BINS = 64  # cuts of a column that are tried, at its quantiles
DIGITS = 4  # of a leaf's value
SHRINK = 2.0  # added to the count of a leaf: few points say little
NODES = {
    "tree": pl.Int16,
    "column": pl.Int8,
    "cut": pl.Float32,
    "right": pl.Int16,
    "value": pl.Float32,
}


class Fitting(NamedTuple):
    """How trees are fitted: chosen by leaving out parts of the H200's map."""

    trees: int = 120
    depth: int = 7
    rate: float = 0.06
    leaf: int = 4  # points, at least
    columns: float = 0.5  # the share that each tree may use
    reach: tuple[float, float] = (0.5, 0.15)  # of the first tree and the last

    def pull(self, left: Array, number: int) -> Array:
        """What a tree is fitted to. A point beyond the reach pulls less: of two kernels that the
        library may take, the guess should be one, not the mean of both.
        """
        first, last = self.reach
        reach = first + (last - first) * number / self.trees
        found: Array = left * np.exp(-((left / reach) ** 2) / 2) * self.rate
        return found


class Node(NamedTuple):
    """The left child, up to `cut`, follows; the other one is `right` places on.

    A leaf has column -1 and a value. All others have the value 0: numbers that repeat take less
    room in a file.
    """

    column: int
    cut: float
    right: int
    value: float


def fit(columns: Array, wanted: Array, how: Fitting | None = None) -> pl.DataFrame:
    """The nodes of trees whose sum is near `wanted`; one row of `columns` for each value."""
    how, chance = how or Fitting(), np.random.default_rng(0)
    cuts = [np.unique(np.quantile(each, np.linspace(0, 1, BINS + 1)[1:-1])) for each in columns.T]
    binned = np.stack(
        [np.searchsorted(cut, each) for cut, each in zip(cuts, columns.T, strict=True)], axis=1
    )
    reached = np.zeros(len(wanted))
    made: list[tuple[int, *tuple[Any, ...]]] = []
    for number in range(how.trees):
        left = how.pull(wanted - reached, number)
        usable = chance.permutation(len(cuts))[: max(1, round(len(cuts) * how.columns))]
        nodes: list[Node] = []
        _grow(nodes, binned, left, np.arange(len(left)), usable, cuts, how, how.depth)
        made += [(number, *node) for node in nodes]
        reached += _one(nodes, columns)
    return pl.DataFrame(made, schema=NODES, orient="row")


def _grow(
    nodes: list[Node],
    binned: Array,
    left: Array,
    rows: Array,
    usable: Array,
    cuts: list[Array],
    how: Fitting,
    depth: int,
) -> None:
    """Add the subtree of these rows."""
    here = len(nodes)
    value = round(float(left[rows].sum() / (len(rows) + SHRINK)), DIGITS)
    nodes.append(Node(-1, 0.0, 0, value))
    found = _best(binned, left, rows, usable, how.leaf) if depth else None
    if found is None:
        return
    column, at = found
    low = binned[rows, column] <= at
    _grow(nodes, binned, left, rows[low], usable, cuts, how, depth - 1)
    right = len(nodes) - here
    _grow(nodes, binned, left, rows[~low], usable, cuts, how, depth - 1)
    nodes[here] = Node(int(column), float(np.float32(cuts[column][at])), right, 0.0)


def _best(
    binned: Array, left: Array, rows: Array, usable: Array, leaf: int
) -> tuple[int, int] | None:
    """The cut that explains most of what is left; None where no cut leaves enough on both sides."""
    if len(rows) < 2 * leaf:
        return None
    total, width = left[rows].sum(), len(usable)
    places = (binned[rows][:, usable] + BINS * np.arange(width)).ravel()
    counts = _below(np.bincount(places, minlength=BINS * width), width)
    sums = _below(np.bincount(places, np.repeat(left[rows], width), BINS * width), width)
    others = len(rows) - counts
    gain = sums**2 / (counts + SHRINK) + (total - sums) ** 2 / (others + SHRINK)
    gain[(counts < leaf) | (others < leaf)] = 0
    column, at = divmod(int(gain.argmax()), BINS - 1)
    better = gain[column, at] > total**2 / (len(rows) + SHRINK) + 1e-12
    return (int(usable[column]), at) if better else None


def _below(bins: Array, width: int) -> Array:
    """Sums up to each cut of each column."""
    found: Array = bins.reshape(width, BINS)[:, :-1].cumsum(axis=1)
    return found


def evaluate(nodes: pl.DataFrame, columns: Array) -> Array:
    """The sum of all trees for each row."""
    total = np.zeros(len(columns))
    for tree in _trees(nodes):
        total += _one(tree, columns)
    return total


def _trees(nodes: pl.DataFrame) -> Iterator[list[Node]]:
    for part in nodes.partition_by("tree", maintain_order=True):
        yield [Node(*row[1:]) for row in part.iter_rows()]


def _one(tree: list[Node], columns: Array) -> Array:
    column, cut, right, value = (np.array(each) for each in zip(*tree, strict=True))
    at = np.zeros(len(columns), dtype=int)
    rows = np.arange(len(columns))
    while (inner := column[at] >= 0).any():
        low = columns[rows, column[at]] <= cut[at]
        at = np.where(inner, np.where(low, at + 1, at + right[at]), at)
    return value[at]
