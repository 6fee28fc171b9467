"""What happened between two moments: the numbers of the range panel, as `look` counts them.

GPU operations that run at once on a GPU share their time, so that the groups add up to the busy
time. A kernel that lies in the range in part counts for that part. Idle time is in the page.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Floats, Ints
from foretrace.model.trace import Trace
from foretrace.show.html.strip import Busy
from foretrace.show.html.timeline import Timeline


class RangePart(Struct, frozen=True):
    """Time and count of a group, or of a kernel by case."""

    number: int
    ns: float
    count: int


class RangeNumbers(Struct, frozen=True):
    """What happened in a range; null is unknown, never zero.

    `bytes_ns` and `flops_ns` are the time of the kernels whose cost is known.
    """

    gpus: int
    busy_ns: int | None
    groups: list[RangePart]
    kernels: list[RangePart]
    launches: int
    bytes: float | None
    flops: float | None
    bytes_ns: int
    flops_ns: int


class _Gpu:
    """The operations of one GPU in order of start, and its busy time."""

    def __init__(self, start: Ints, end: Ints) -> None:
        self.busy = Busy(start, end)
        self._edges = np.unique(np.concatenate((start, end)))
        running = np.searchsorted(start, self._edges[:-1], "right")
        running -= np.searchsorted(np.sort(end), self._edges[:-1], "right")
        parts = np.where(running > 0, np.diff(self._edges) / np.maximum(running, 1), 0.0)
        self._before = np.concatenate(([0.0], np.cumsum(parts)))

    def shared(self, first: Ints, last: Ints) -> Floats:
        """Time between two moments, divided evenly among the operations that run at once."""
        found: Floats = self._at(last) - self._at(first)
        return found

    def _at(self, times: Ints) -> Floats:
        return np.interp(times, self._edges, self._before)


class Ranges:
    """The GPU operations of a trace; plain data that outlives it."""

    def __init__(self, trace: Trace, timeline: Timeline) -> None:
        gpu, host = trace.gpu, trace.host
        rows = timeline.rows_of(gpu.id[gpu.usable])
        rows = rows[np.argsort(timeline.start[rows], kind="stable")]
        self.start, self.end = timeline.start[rows], (timeline.start + timeline.length)[rows]
        numbers = [-1 if lane.gpu_number is None else lane.gpu_number for lane in timeline.lanes]
        self.gpu = np.array([*numbers, -1])[timeline.lane[rows]]
        self.group, self.case = timeline.group[rows], timeline.columns["case"][rows]
        cases = trace.kernel_cases
        self._costs = {name: _costs(cases[name].to_list()) for name in ("bytes", "flops")}
        launches = host.start[host.is_launch & host.timed] - timeline.origin_ns
        self._launches = np.sort(launches)
        self._gpus = {
            number: _Gpu(self.start[self.gpu == number], self.end[self.gpu == number])
            for number in np.unique(self.gpu).tolist()
        }

    def numbers(self, start: int, end: int) -> RangeNumbers:
        """The numbers of [start, end)."""
        inside = np.flatnonzero((self.start < end) & (self.end > start))
        first, last = np.maximum(self.start[inside], start), np.minimum(self.end[inside], end)
        own, case, gpu = last - first, self.case[inside], self.gpu[inside]
        shared = np.zeros(len(inside))
        for number, each in self._gpus.items():
            mine = gpu == number
            shared[mine] = each.shared(first[mine], last[mine])
        share = own / (self.end - self.start)[inside]
        begun = np.searchsorted(self._launches, [start, end])
        bytes_, bytes_ns = _cost(self._costs["bytes"][case], share, own)
        flops, flops_ns = _cost(self._costs["flops"][case], share, own)
        return RangeNumbers(
            len(self._gpus),
            sum(each.busy.between(start, end) for each in self._gpus.values()),
            _parts(self.group[inside], shared),
            _parts(case[case >= 0], own[case >= 0]),
            int(begun[1] - begun[0]),
            bytes_,
            flops,
            bytes_ns,
            flops_ns,
        )


def _costs(values: list[int | None]) -> Floats:
    """By case; NaN where unknown, and at the end for what has no case."""
    return np.array([np.nan if each is None else float(each) for each in [*values, None]])


def _cost(values: Floats, share: Floats, own: Ints) -> tuple[float | None, int]:
    known = ~np.isnan(values)
    total = float((values[known] * share[known]).sum()) if known.any() else None
    return total, int(own[known].sum())


def _parts(number: Ints, ns: Floats | Ints) -> list[RangePart]:
    """By number, the most time first."""
    found, place = np.unique(number, return_inverse=True)
    time, count = np.bincount(place, ns, len(found)), np.bincount(place, minlength=len(found))
    parts = [
        RangePart(*row) for row in zip(found.tolist(), time.tolist(), count.tolist(), strict=True)
    ]
    return sorted(parts, key=lambda part: (-part.ns, part.number))
