"""Tiles: what is drawn of a stretch of time, however many events it holds, and none is lost.

A row is sent twice: as bands, the exact busy time of each pixel by group, and as boxes, the events
that are at least a pixel wide. Which events are as wide as 1 us, 4 us, 16 us and so on is computed
once; a request starts from the coarsest such level that is still finer than its own pixels, so it
looks at thousands of events however many the trace holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.model.intervals import Ints
from foretrace.schema.tables import KINDS, WORK_KINDS
from foretrace.show.html.page import Packed, pack
from foretrace.show.html.timeline import Bands, Timeline, edges

WORK = tuple(KINDS.index(kind) for kind in WORK_KINDS)
FINEST_NS, FACTOR = 1000, 4
ENOUGH = 20_000  # a level this small needs no coarser one


class PackedBands(Struct, frozen=True):
    """Busy time of pixels, without those that are idle.

    `runs` are neighbouring pixels of one group: `track` and `row` (of a strip: the number of the
    GPU, and 0), `group`, the `first` pixel, their `count`, and whether they are `full`, busy from
    edge to edge. `busy` holds the ns of each pixel of the runs that are not.
    """

    runs: Packed
    busy: Packed


class PackedTile(Struct, omit_defaults=True):
    """What is drawn of some lanes; `marks` say what a comparison found of each box."""

    bands: PackedBands
    strips: PackedBands
    boxes: Packed
    marks: Packed | None = None


class _Level(Struct, frozen=True):
    """Events at least `pixel_ns` long: their rows in the timeline."""

    pixel_ns: int
    rows: Ints


class Tiles:
    """Answers for one timeline; a `stretch` is one row of one lane."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        starts = np.ones(len(timeline), bool)
        starts[1:] = (np.diff(timeline.lane) != 0) | (np.diff(timeline.row) != 0)
        first = np.flatnonzero(starts)
        self.lane, self.row = timeline.lane[first].tolist(), timeline.row[first].tolist()
        self._bounds = np.append(first, len(timeline))
        stretches = pairwise(self._bounds.tolist())
        self._bands = [timeline.bands(np.arange(low, high)) for low, high in stretches]
        self._strips = dict(self._of_gpus())
        self._reach = timeline.start + timeline.length  # of a stretch, the last end so far
        for low, high in pairwise(self._bounds.tolist()):
            np.maximum.accumulate(self._reach[low:high], out=self._reach[low:high])
        self.levels = [_Level(0, np.arange(len(timeline), dtype=np.int32))]
        while len(self.levels[-1].rows) > ENOUGH and self.levels[-1].pixel_ns < timeline.end_ns:
            pixel = max(self.levels[-1].pixel_ns * FACTOR, FINEST_NS)
            rows = self.levels[-1].rows
            self.levels.append(_Level(pixel, rows[timeline.length[rows] >= pixel]))

    def _of_gpus(self) -> Iterator[tuple[int, Bands]]:
        """The work of each GPU, whatever the stream."""
        timeline = self.timeline
        numbers = [-1 if lane.gpu_number is None else lane.gpu_number for lane in timeline.lanes]
        work = np.flatnonzero(np.isin(timeline.columns["kind"], WORK))
        gpu = np.array(numbers, np.int64)[timeline.lane[work]]
        for number in distinct(gpu[gpu >= 0]).tolist():
            yield number, timeline.bands(work[gpu == number])

    def boxes(self, start: int, end: int, width: int, lanes: Collection[int] | None = None) -> Ints:
        """Rows of the timeline that are at least one of `width` pixels wide."""
        pixel = max((end - start) / width, 1)
        level = next(level for level in reversed(self.levels) if level.pixel_ns <= pixel)
        near = [self._near(at, start, end) for at in self._of(lanes)]
        bounds = np.searchsorted(level.rows, np.array(near, np.int32).reshape(-1, 2)).tolist()
        rows = np.concatenate([level.rows[low:high] for low, high in bounds] or [level.rows[:0]])
        wide: Ints = rows[self.timeline.length[rows] >= pixel]
        return wide

    def _near(self, at: int, start: int, end: int) -> tuple[int, int]:
        """The rows of a stretch that overlap [start, end), and perhaps some between them."""
        low, high = int(self._bounds[at]), int(self._bounds[at + 1])
        first = low + int(np.searchsorted(self._reach[low:high], start, side="right"))
        return first, low + int(np.searchsorted(self.timeline.start[low:high], end))

    def bands(
        self, start: int, end: int, width: int, lanes: Collection[int] | None = None
    ) -> PackedBands:
        """Every event of these lanes, as busy time of pixels."""
        at = edges(start, end, width)
        rows = [
            ((self.lane[each], self.row[each], group), busy)
            for each in self._of(lanes)
            for group, busy in self._bands[each].pixels(at).items()
        ]
        return packed_bands(rows, np.diff(at))

    def strips(self, start: int, end: int, width: int) -> PackedBands:
        """How busy each GPU is, whatever the stream."""
        at = edges(start, end, width)
        rows = [
            ((gpu, 0, group), busy)
            for gpu, bands in self._strips.items()
            for group, busy in bands.pixels(at).items()
        ]
        return packed_bands(rows, np.diff(at))

    def _of(self, lanes: Collection[int] | None) -> list[int]:
        return [at for at, lane in enumerate(self.lane) if lanes is None or lane in lanes]


def packed_bands(rows: list[tuple[tuple[int, int, int], Ints]], full: Ints) -> PackedBands:
    """Pack (track, row, group) and its pixels; `full` is the length of each pixel."""
    width = len(full)
    keys = np.array([key for key, _ in rows], np.int64).reshape(-1, 3)
    pixels = np.concatenate([busy for _, busy in rows] or [np.empty(0, np.int64)])
    # 0 for idle pixels, 1 for those in part busy, 2 for full ones
    state = np.sign(pixels) + (pixels == np.tile(full, len(rows))) * np.sign(pixels)
    begins = np.ones(len(pixels), bool)
    begins[1:] = np.diff(state) != 0
    begins[::width] = True
    first = np.flatnonzero(begins)
    count = np.diff(np.append(first, len(pixels)))
    first, count = first[state[first] > 0], count[state[first] > 0]
    columns = dict(zip(("track", "row", "group"), keys[first // width].T, strict=True))
    columns |= {"first": first % width, "count": count, "full": state[first] - 1}
    return PackedBands(pack(columns), pack({"ns": pixels[state == 1]}))
