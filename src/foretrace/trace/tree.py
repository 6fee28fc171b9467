"""Who called whom: for every host event the nearest range on its thread that contains it.

Properly nested threads, which is nearly all of them, are solved with sorting alone. A thread on
which ranges cross is walked with a stack: a crossing range keeps the nearest range that contains
all of it. A runtime call belongs to the range it starts in, even when clock drift lets it end a
little later (ROCm).

From an event, `nearest` finds the nearest event of a kind above it, and `summed` the sum over all
that it contains. A path is the chosen events above a launch, from the outermost to the innermost;
millions of launches share few. Every walk takes strides of doubled length, so that a tree of any
depth costs no more than its events times the logarithm of its depth.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretrace.base.arrays import Narrow, coded, distinct
from foretrace.trace.intervals import Bools, Floats, Ints


def build(track: Ints, start: Ints, end: Ints, is_call: Bools) -> tuple[Ints, Ints, int]:
    """(parent or -1, depth, crossings) of events that are sorted by start, the longer first."""
    count = len(start)
    parent, depth = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    if not count:
        return parent, depth, 0
    narrow = track.astype(np.int16) if int(track.max()) < 1 << 15 else track  # sorts faster
    order = np.argsort(narrow, kind="stable")
    lane, begin, finish = _one_axis(track[order], start[order], end[order])
    level = np.arange(count) - np.searchsorted(np.sort(finish), begin, side="right")
    # the latest earlier event that is one level higher, or -1
    by_level = np.argsort(level, kind="stable")
    place = level[by_level] * count + by_level  # in order: by level, then by time
    found = np.searchsorted(place, place - count) - 1
    over = by_level[np.maximum(found, 0)]
    above = np.empty(count, np.int64)
    above[by_level] = np.where((found >= 0) & (level[over] == level[by_level] - 1), over, -1)
    crossing = (above >= 0) & (finish[above] < finish) & (above != np.arange(count))
    wrong = distinct(lane[crossing])
    parent[order] = np.where(above >= 0, order[above], -1)
    depth[order] = level
    edges = np.append(np.searchsorted(lane, wrong), np.searchsorted(lane, wrong, "right"))
    crossings = 0
    for first, last in edges.reshape(2, -1).T.tolist():
        rows = order[first:last]
        crossings += _walk(rows, start[rows], end[rows], is_call[rows], parent, depth)
    return parent, depth, crossings


def _one_axis(track: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Threads laid end to end, coordinates doubled: an empty range still ends after its start."""
    lane = np.cumsum(np.concatenate(([0], track[1:] != track[:-1])))
    low = start.min()
    width = 2 * (end.max() - low) + 4
    begin = 2 * (start - low) + lane * width
    finish = 2 * (end - low) + (end == start) + lane * width
    return lane, begin, finish


def _walk(rows: Ints, start: Ints, end: Ints, is_call: Bools, parent: Ints, depth: Ints) -> int:
    """One thread with a stack; returns how many ranges cross another.

    A range hides those below it that end no later: it contains all that they still can. So the ends
    of the open ranges fall from the bottom to the top of the stack.
    """
    crossings = 0
    open_ranges: list[tuple[int, int]] = []  # end and row
    columns = (rows, 2 * start, 2 * end + (end == start), is_call)  # an empty range ends later
    for row, begin, finish, called in zip(*(each.tolist() for each in columns), strict=True):
        while open_ranges and open_ranges[-1][0] <= begin:
            open_ranges.pop()
        crossings += bool(open_ranges) and open_ranges[-1][0] < finish
        while not called and open_ranges and open_ranges[-1][0] < finish:
            open_ranges.pop()
        if open_ranges:
            parent[row] = open_ranges[-1][1]
            depth[row] = depth[parent[row]] + 1
        else:
            parent[row], depth[row] = -1, 0
        if not called:
            open_ranges.append((finish, row))
    return crossings


DEEPEST = 32  # names of a path that are told; recorded traces have at most nine
ELLIPSIS = "…"
_STEP, _SPREAD, _WORD = 0x5851F42D4C957F2D, np.uint64(0x9E3779B97F4A7C15), 1 << 64


def nearest(parent: Narrow, rows: Ints, chosen: Bools) -> Ints:
    """The innermost chosen event at or above each event, or -1."""
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(found >= 0)
    for _ in range(32):  # steps one by one: nearly all launches have their op within a few
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
        _, number = coded(self._keys[np.maximum(rows, 0)])
        return np.where(rows >= 0, number, -1)

    @cached_property
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
