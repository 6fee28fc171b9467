"""Arithmetic on many intervals at once: unions, overlaps, and which range contains which.

`IntervalUnion` answers for any moment: it sorts once, then looks up.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.arrays import Bools as Bools
from foretrace.base.arrays import Floats as Floats
from foretrace.base.arrays import Ints as Ints
from foretrace.base.arrays import Narrow, coded, distinct


def numbered(*columns: Narrow) -> Ints:
    """A small number for each distinct combination of values."""
    combined, size = np.zeros(len(columns[0]), np.int64), 1
    for values in columns:
        found, number = coded(values)
        if size * len(found) > (1 << 62):  # beyond this a sum of two numbers leaves 64 bits
            combined, size = coded(combined)[1], len(combined)
        combined = combined * max(len(found), 1) + number
        size *= max(len(found), 1)
    return coded(combined)[1]


def union_length(start: Ints, end: Ints, group: Ints | None = None) -> int:
    """Time covered by at least one interval, summed over groups."""
    if not len(start):
        return 0
    group = np.zeros(len(start), np.int64) if group is None else group
    _, first, last = _lanes(group, start, end)  # groups end to end on one axis, for a single sweep
    before = np.concatenate((first[:1], np.maximum.accumulate(last)[:-1]))
    return int(np.maximum(last - np.maximum(first, before), 0).sum())


def shared_lengths(group: Ints, start: Ints, end: Ints) -> Floats:
    """The time of each interval, divided evenly among those of its group that run at once."""
    if not len(start):
        return np.zeros(0)
    order, first, last = _lanes(group, start, end)
    edges = distinct(np.concatenate((first, last)))
    began, ended = (np.searchsorted(np.sort(each), edges[:-1], "right") for each in (first, last))
    parts = np.diff(edges) / np.maximum(began - ended, 1)
    before = np.concatenate(([0.0], np.cumsum(np.where(began > ended, parts, 0.0))))
    lengths = np.empty(len(start))
    lengths[order] = before[np.searchsorted(edges, last)] - before[np.searchsorted(edges, first)]
    return lengths


def overlapping(group: Ints, start: Ints, end: Ints) -> int:
    """How many intervals start before an earlier one of their group has ended."""
    if len(start) < 2:
        return 0
    _, shifted_start, shifted_end = _lanes(group, start, end)
    reach = np.maximum.accumulate(shifted_end)
    return int((shifted_start[1:] < reach[:-1]).sum())


def _lanes(group: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    low = int(start.min())
    lane = int(end.max()) - low + 1
    shift = group * lane - low
    order = np.lexsort((end, start, group))
    return order, (start + shift)[order], (end + shift)[order]


def innermost(outer_start: Ints, outer_end: Ints, points: Ints) -> Ints:
    """For each point the last range (sorted by start) that is open there, or -1."""
    found = np.searchsorted(outer_start, points, side="right") - 1
    closed = np.flatnonzero(found >= 0)
    closed = closed[outer_end[found[closed]] <= points[closed]]
    if len(closed):
        limits = points[closed]
        highest = [outer_end]  # of 1, 2, 4, … values up to each place
        while (stride := 1 << (len(highest) - 1)) < len(outer_end):
            last = highest[-1]
            highest.append(np.append(last[:stride], np.maximum(last[stride:], last[:-stride])))
        reached = found[closed]
        for power in range(len(highest) - 1, -1, -1):
            passed = (reached >= 0) & (highest[power][np.maximum(reached, 0)] <= limits)
            reached[passed] -= 1 << power
        found[closed] = np.maximum(reached, -1)
    return found


def open_at_start(group: Narrow, start: Ints, end: Ints) -> Ints:
    """How many earlier ranges of its group are open when each range (sorted by start) begins."""
    moments = distinct(np.concatenate((start, end)))
    base = group.astype(np.int64) * (len(moments) + 1)
    began, order = np.empty(len(start), np.int64), np.argsort(group, kind="stable")
    began[order] = np.arange(len(start))
    ended = np.sort(base + np.searchsorted(moments, end))
    return began - np.searchsorted(ended, base + np.searchsorted(moments, start), "right")


def split_by(number: Ints, rows: Ints) -> list[Ints]:
    """The rows of each number, in the order of the numbers."""
    order = np.argsort(number, kind="stable")
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    return np.split(rows[order], cuts) if len(rows) else []


class IntervalUnion:
    """The union of intervals. `start` and `end` are its separate stretches, in order."""

    def __init__(self, start: Ints, end: Ints) -> None:
        if (start[1:] < start[:-1]).any():  # events come in time order
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        first = np.flatnonzero(np.append(True, start[1:] > reach[:-1])[: len(start)])
        self.start: Ints = start[first]
        self.end: Ints = reach[np.append(first[1:], len(start))[: len(first)] - 1]
        self._before: Ints = np.concatenate(([0], np.cumsum(self.end - self.start)))

    def up_to(self, moments: Ints) -> Ints:
        """IntervalUnion time before each moment."""
        begun = np.searchsorted(self.start, moments, side="right")
        if not len(self.start):
            return np.zeros(len(moments), np.int64)
        still_open = np.maximum(self.end[np.maximum(begun - 1, 0)] - moments, 0)
        return self._before[begun] - np.where(begun > 0, still_open, 0)

    def between(self, start: Ints, end: Ints) -> Ints:
        """IntervalUnion time in each stretch from `start` to `end`."""
        return self.up_to(end) - self.up_to(start)

    def holds(self, moments: Ints) -> Bools:
        """Which moments lie inside, both ends of a stretch counted."""
        if not len(self.start):
            return np.zeros(len(moments), bool)
        begun = np.searchsorted(self.start, moments, side="right")
        return (begun > 0) & (self.end[np.maximum(begun - 1, 0)] >= moments)
