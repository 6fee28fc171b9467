"""Exact busy time of each pixel, by group: what a row looks like when its events are too small.

The union of a group's intervals is kept with the busy time before each piece. The busy time of a
pixel is then a difference of two look-ups, however many events it holds; none is left out at any
zoom. `web/src/core/busy.ts` does the same in a page.
"""

from __future__ import annotations

import numpy as np

from foretrace.model.intervals import Ints

_LONG_AGO = -(1 << 62)  # the end of what precedes the first piece


class Busy:
    """Intervals in order of start; they may overlap."""

    def __init__(self, start: Ints, end: Ints) -> None:
        lasting = end > start
        start, reach = start[lasting], np.maximum.accumulate(end[lasting])
        first = np.ones(len(start), bool)
        first[1:] = start[1:] > reach[:-1]
        last = np.append(first[1:], True)[: len(start)]
        self.start = start[first]
        self._ends = np.concatenate([[_LONG_AGO], reach[last]])
        self._sum = np.concatenate([[0], np.cumsum(self._ends[1:] - self.start)])

    @property
    def end(self) -> Ints:
        """The end of each piece."""
        return self._ends[1:]

    def before(self, times: Ints) -> Ints:
        """Busy time before each of these times."""
        piece = np.searchsorted(self.start, times, side="right")
        found: Ints = self._sum[piece] - np.maximum(self._ends[piece] - times, 0)
        return found

    def between(self, start: int, end: int) -> int:
        """Busy time between two moments."""
        before, after = self.before(np.array([start, max(start, end)]))
        return int(after - before)


class Bands:
    """The intervals of one row, in order of start, each with the number of its group."""

    def __init__(self, start: Ints, end: Ints, group: Ints) -> None:
        groups = np.unique(group).tolist()
        self.groups = {each: Busy(start[group == each], end[group == each]) for each in groups}

    def pixels(self, edges: Ints) -> dict[int, Ints]:
        """Busy ns between each two of these moments, by group; nothing for idle groups."""
        found = {each: np.diff(busy.before(edges)) for each, busy in self.groups.items()}
        return {each: busy for each, busy in found.items() if busy.any()}


def edges(start: int, end: int, width: int) -> Ints:
    """The whole nanoseconds at which `width` pixels begin, and where the last one ends."""
    whole, rest = divmod(end - start, width)  # the matmul of all three may exceed 64 bits
    pixel = np.arange(width + 1, dtype=np.int64)
    return start + whole * pixel + rest * pixel // width


def partition(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Intervals in order of start, cut so that a moment belongs to the first that holds it.

    Groups that run at once then add up to the time in which something ran.
    """
    before = np.maximum.accumulate(np.concatenate([[_LONG_AGO], end[:-1]]))[: len(start)]
    began = np.maximum(start, before)
    return began, np.maximum(end, began)
