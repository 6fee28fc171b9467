"""Tiles: the events of a stretch of time, no more of them than fit on a screen.

An event narrower than a pixel is drawn only when it is the first on its pixel. Which events those
are is computed once for pixels of 1 us, 4 us, 16 us and so on; a request starts from the coarsest
such level that is still finer than its own pixels, so it looks at thousands of events however many
the trace holds.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Bools, Ints
from foretrace.render.html.timeline import Timeline

FINEST_NS, FACTOR = 1000, 4
ENOUGH = 20_000  # a level this small needs no coarser one


class _Level(Struct, frozen=True):
    """`rows` drawn when a pixel is `pixel_ns` long, and where each lane's rows begin among them."""

    pixel_ns: int
    rows: Ints
    bounds: Ints


class Tiles:
    """Answers for one timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        key = timeline.lane * (int(timeline.row.max(initial=0)) + 1) + timeline.row
        self._stretch: Ints = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int32)
        self._count = int(self._stretch.max(initial=-1)) + 1
        self.longest = np.zeros(self._count, np.int64)
        np.maximum.at(self.longest, self._stretch, timeline.length)
        self.levels = [self._level(0, np.arange(len(timeline), dtype=np.int32))]
        while len(self.levels[-1].rows) > ENOUGH and self.levels[-1].pixel_ns < timeline.end_ns:
            pixel = max(self.levels[-1].pixel_ns * FACTOR, FINEST_NS)
            rows = self.levels[-1].rows
            self.levels.append(self._level(pixel, rows[self._drawn(rows, pixel)]))

    def _level(self, pixel_ns: int, rows: Ints) -> _Level:
        bounds = np.searchsorted(self._stretch[rows], np.arange(self._count + 1))
        return _Level(pixel_ns, rows, bounds)

    def _drawn(self, rows: Ints, pixel_ns: float, origin: int = 0) -> Bools:
        """Which of these rows are a pixel wide or more, or the first of their stretch on theirs."""
        pixel = ((self.timeline.start[rows] - origin) // pixel_ns).astype(np.int64)
        first = np.ones(len(rows), bool)
        stretch = self._stretch[rows]
        first[1:] = (pixel[1:] != pixel[:-1]) | (stretch[1:] != stretch[:-1])
        return first | (self.timeline.length[rows] >= pixel_ns)

    def rows(self, start: int, end: int, width: int) -> Ints:
        """The rows to draw for [start, end] on `width` pixels."""
        pixel = max((end - start) / width, 1)
        level = next(level for level in reversed(self.levels) if level.pixel_ns <= pixel)
        parts = [self._part(level, stretch, start, end) for stretch in range(self._count)]
        rows = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return rows[self._drawn(rows, pixel, start)] if len(rows) else rows

    def _part(self, level: _Level, stretch: int, start: int, end: int) -> Ints:
        mine = level.rows[level.bounds[stretch] : level.bounds[stretch + 1]]
        begins = self.timeline.start
        low = bisect_left(mine, start - int(self.longest[stretch]), key=lambda row: begins[row])
        high = bisect_left(mine, end + 1, lo=low, key=lambda row: begins[row])
        near = mine[low:high]
        return near[self.timeline.start[near] + self.timeline.length[near] >= start]
