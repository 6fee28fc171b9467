"""Time covered by many intervals, answered for any moment: sort once, then look up."""

from __future__ import annotations

import numpy as np

from foretrace.model.intervals import Bools, Ints


class Covered:
    """The union of intervals. `start` and `end` are its separate stretches, in order."""

    def __init__(self, start: Ints, end: Ints) -> None:
        if (start[1:] < start[:-1]).any():  # events come in time order
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        begin, reach = start, np.maximum.accumulate(end) if len(end) else end
        opens = (
            np.concatenate(([True], begin[1:] > reach[:-1])) if len(begin) else np.zeros(0, bool)
        )
        first = np.flatnonzero(opens)
        self.start: Ints = begin[first]
        self.end: Ints = reach[np.append(first[1:], len(begin)) - 1] if len(begin) else reach
        self._before: Ints = np.concatenate(([0], np.cumsum(self.end - self.start)))

    def up_to(self, moments: Ints) -> Ints:
        """Covered time before each moment."""
        begun = np.searchsorted(self.start, moments, side="right")
        if not len(self.start):
            return np.zeros(len(moments), np.int64)
        still_open = np.maximum(self.end[np.maximum(begun - 1, 0)] - moments, 0)
        return self._before[begun] - np.where(begun > 0, still_open, 0)

    def between(self, start: Ints, end: Ints) -> Ints:
        """Covered time in each stretch from `start` to `end`."""
        return self.up_to(end) - self.up_to(start)

    def holds(self, moments: Ints) -> Bools:
        """Which moments lie inside, both ends of a stretch counted."""
        if not len(self.start):
            return np.zeros(len(moments), bool)
        begun = np.searchsorted(self.start, moments, side="right")
        return (begun > 0) & (self.end[np.maximum(begun - 1, 0)] >= moments)
