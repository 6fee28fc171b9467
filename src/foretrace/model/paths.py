"""The way up from an event through those that contain it: the nearest of a kind, sums over all that
an event contains, and paths.

A path is the chosen events above a launch, from the outermost to the innermost; millions of
launches share few. Every walk takes strides of doubled length, so that a tree of any depth costs no
more than its events times the logarithm of its depth.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretrace.model.intervals import Bools, Floats, Ints
from foretrace.schema.gaps import Narrow

DEEPEST = 32  # names of a path that are told; recorded traces have at most nine
ELLIPSIS = "…"
_SHALLOW = 32  # steps one by one: nearly all launches have their op within a few
_STEP, _SPREAD, _WORD = 0x5851F42D4C957F2D, np.uint64(0x9E3779B97F4A7C15), 1 << 64


def nearest(parent: Narrow, rows: Ints, chosen: Bools) -> Ints:
    """The innermost chosen event at or above each event, or -1."""
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(found >= 0)
    for _ in range(_SHALLOW):
        climbing = climbing[~chosen[found[climbing]]]
        if not len(climbing):
            return found
        found[climbing] = parent[found[climbing]]
        climbing = climbing[found[climbing] >= 0]
    over = np.append(np.where(chosen, np.arange(len(parent)), parent), -1)
    while not np.array_equal(over, over[over]):
        over = over[over]
    found[climbing] = over[found[climbing]]
    return found


def summed(parent: Narrow, values: Ints) -> Ints:
    """The sum of `values` over each event and all that it contains."""
    total, over = values.copy(), parent
    below = np.flatnonzero(over >= 0)
    while len(below):
        added = total[below]
        np.add.at(total, over[below], added)
        over = np.where(over >= 0, over[over], -1)
        below = below[over[below] >= 0]
    return total


def sums_above(parent: Narrow, values: Floats) -> Floats:
    """The sum of `values` over each event and all that contain it."""
    total, over = values.copy(), parent
    inside = np.flatnonzero(over >= 0)
    while len(inside):
        total[inside] += total[over[inside]]
        over = np.where(over >= 0, over[over], -1)
        inside = inside[over[inside] >= 0]
    return total


class Paths:
    """The paths of the chosen events of one tree; `name` is the number of each event's name."""

    def __init__(self, parent: Narrow, name: Narrow, chosen: Bools) -> None:
        self.parent, self.name, self.chosen = parent, name, chosen
        events = np.flatnonzero(chosen)
        self.above: Narrow = np.full(len(parent), -1, parent.dtype)
        self.above[events] = nearest(parent, parent[events], chosen)

    def numbers(self, rows: Ints) -> Ints:
        """A number for the path that ends at each of these events; -1 for a row of -1."""
        if not len(rows):
            return rows
        _, number = np.unique(self._keys()[np.maximum(rows, 0)], return_inverse=True)
        return np.where(rows >= 0, number.reshape(-1), -1)

    def _keys(self) -> NDArray[np.uint64]:
        """Of each event the names in its path as the coefficients of a polynomial."""
        events = np.flatnonzero(self.chosen)
        key = np.zeros(len(self.name), np.uint64)
        key[events] = (self.name[events].astype(np.uint64) + np.uint64(1)) * _SPREAD
        over, factor = self.above, _STEP
        while len(events := events[over[events] >= 0]):
            key[events] += key[over[events]] * np.uint64(factor)
            factor = factor * factor % _WORD
            over = np.where(over >= 0, over[over], -1)
        return key

    @cached_property
    def _nearest(self) -> Ints:
        """The innermost chosen event at or above every event."""
        return nearest(self.parent, np.arange(len(self.parent)), self.chosen)

    def names(self, event: int, names: list[str]) -> tuple[str, ...]:
        """Names of the chosen events at and above this one, outermost first, `…` for too many."""
        event = event if event < 0 or self.chosen[event] else int(self._nearest[event])
        found: list[str] = []
        while event >= 0 and len(found) < DEEPEST:
            found.append(names[self.name[event]])
            event = int(self.above[event])
        return (*([ELLIPSIS] * (event >= 0)), *reversed(found))
