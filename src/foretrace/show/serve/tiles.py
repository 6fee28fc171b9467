"""Tiles: what is drawn of a stretch of time, however many events it holds, and none is lost.

A row is sent twice: as bands, the exact busy time of each pixel by group, and as boxes, the events
that are at least a pixel wide. Which events are as wide as 1 us, 4 us, 16 us and so on is computed
once: a request starts from the coarsest such level that is finer than its own pixels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
        work = np.flatnonzero(np.isin(timeline.columns["kind"], WORK))
        numbers = [-1 if lane.gpu_number is None else lane.gpu_number for lane in timeline.lanes]
        gpu = np.array(numbers, np.int64)[timeline.lane[work]]
        of_gpus = distinct(gpu[gpu >= 0]).tolist()  # the work of each, whatever the stream
        self._strips = {number: timeline.bands(work[gpu == number]) for number in of_gpus}
        self._reach = timeline.start + timeline.length  # of a stretch, the last end so far
        for low, high in pairwise(self._bounds.tolist()):
            np.maximum.accumulate(self._reach[low:high], out=self._reach[low:high])
        self.levels = [_Level(0, np.arange(len(timeline), dtype=np.int32))]
        while len(self.levels[-1].rows) > ENOUGH and self.levels[-1].pixel_ns < timeline.end_ns:
            pixel = max(self.levels[-1].pixel_ns * FACTOR, FINEST_NS)
            rows = self.levels[-1].rows
            self.levels.append(_Level(pixel, rows[timeline.length[rows] >= pixel]))

    def boxes(self, start: int, end: int, width: int, lanes: Collection[int] | None = None) -> Ints:
        """Rows of the timeline that are at least one of `width` pixels wide."""
        pixel = max((end - start) / width, 1)
        level = next(level for level in reversed(self.levels) if level.pixel_ns <= pixel)
        near = []
        for at in self._of(lanes):  # what overlaps [start, end), and perhaps some rows between
            low, high = int(self._bounds[at]), int(self._bounds[at + 1])
            first = np.searchsorted(self._reach[low:high], start, side="right")
            near.append((low + first, low + np.searchsorted(self.timeline.start[low:high], end)))
        bounds = np.searchsorted(level.rows, np.array(near, np.int32).reshape(-1, 2)).tolist()
        rows = np.concatenate([level.rows[low:high] for low, high in bounds] or [level.rows[:0]])
        wide: Ints = rows[self.timeline.length[rows] >= pixel]
        return wide

    def bands(
        self, start: int, end: int, width: int, lanes: Collection[int] | None = None
    ) -> PackedBands:
        """Every event of these lanes, as busy time of pixels."""
        named = {(self.lane[at], self.row[at]): self._bands[at] for at in self._of(lanes)}
        return packed_bands(named, edges(start, end, width))

    def strips(self, start: int, end: int, width: int) -> PackedBands:
        """How busy each GPU is, whatever the stream."""
        named = {(gpu, 0): bands for gpu, bands in self._strips.items()}
        return packed_bands(named, edges(start, end, width))

    def _of(self, lanes: Collection[int] | None) -> list[int]:
        return [at for at, lane in enumerate(self.lane) if lanes is None or lane in lanes]


def packed_bands(named: Mapping[tuple[int, int], Bands], at: Ints) -> PackedBands:
    """The bands of each (track, row), as busy time of the pixels between these moments."""
    rows = [
        ((*key, group), busy)
        for key, bands in named.items()
        for group, busy in bands.pixels(at).items()
    ]
    full, width = np.diff(at), len(at) - 1
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
