"""Where every event of a trace is drawn: in which lane (a thread or a stream), on which row of it, from when to when.

Host events lie on the row of their depth. GPU work lies on the first row that is free, because kernels of one stream may
overlap; what was annotated on the GPU lies above it. Events are ordered by lane, row and start, so that a row is one
stretch of every column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...model.gpu import WORK_KINDS
from ...model.host import HOST_KINDS
from ...model.intervals import Ints
from ...model.spans import Span
from ...model.trace import Trace
from .packing import pack
from .tables import configs

GPU_KINDS = ("gpu_user_annotation", *WORK_KINDS)
OTHER_KINDS = ("overhead", "cuda_sync")
MOST_ROWS = 8  # of GPU work that overlaps on one stream; what is beyond shares the last
_DIFFERENCES = frozenset({"event", "start", "parent", "launch"})


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread or a stream; `rows` high."""

    label: str
    gpu: bool
    rows: int


class Timeline:
    """Parallel columns, one row per event that lasts: `event`, `lane`, `row`, `start` (since `origin_ns`), `length`."""

    def __init__(self, trace: Trace) -> None:
        self.trace, host = trace, trace.host
        shown = np.flatnonzero(host.lasting & host.is_kind(*HOST_KINDS, *GPU_KINDS, *OTHER_KINDS))
        self.origin_ns = int(host.start[shown].min()) if len(shown) else 0
        on_gpu = host.is_kind(*GPU_KINDS)
        tracks = _tracks(host.track[shown], on_gpu[shown])
        parts = [self._rows(shown[host.track[shown] == track]) for track in tracks]
        self.lanes = [
            Lane(self._label(track, bool(on_gpu[events].any())), bool(on_gpu[events].any()), int(rows.max()) + 1)
            for track, (events, rows) in zip(tracks, parts, strict=True)
        ]
        self.event: Ints = _joined(events for events, _ in parts)
        self.row: Ints = _joined(rows for _, rows in parts)
        self.lane: Ints = np.repeat(np.arange(len(parts)), [len(events) for events, _ in parts])
        order = np.lexsort((host.start[self.event], self.row, self.lane))
        self.event, self.row, self.lane = self.event[order], self.row[order], self.lane[order]
        self.start: Ints = host.start[self.event] - self.origin_ns
        self.length: Ints = host.length[self.event]

    def __len__(self) -> int:
        return len(self.event)

    def _rows(self, events: Ints) -> tuple[Ints, Ints]:
        """The row of each event of one track: host ranges by depth, then annotations, then GPU work where there is room."""
        host = self.trace.host
        row = np.zeros(len(events), np.int64)
        nested = host.is_kind(*HOST_KINDS)[events]
        row[nested] = host.depth[events[nested]]
        below = int(row[nested].max()) + 1 if nested.any() else 0
        for kinds in (("gpu_user_annotation",), WORK_KINDS, OTHER_KINDS):
            mine = np.flatnonzero(host.is_kind(*kinds)[events])
            if len(mine):
                row[mine] = below + free_rows(host.start[events[mine]], host.end[events[mine]])
                below = int(row[mine].max()) + 1
        return events, row

    def _label(self, track: int, gpu: bool) -> str:
        found = self.trace.tracks.row(track, named=True)
        if gpu:
            return f"GPU {found['pid']} · stream {found['tid']}"
        return str(found["thread"] or f"thread {found['tid']}")

    @cached_property
    def end_ns(self) -> int:
        """The end of the last event, since `origin_ns`."""
        return int((self.start + self.length).max(initial=0))

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """Every step: its host range, and how far its GPU work reaches."""
        return [self.extent(span) for span in self.trace.spans.steps]

    def extent(self, span: Span) -> dict[str, Any]:
        gpu = self.trace.gpu
        work = span.work[gpu.usable[span.work]]
        last = max(span.end_ns, int(gpu.end[work].max(initial=span.end_ns)))
        return {"name": span.name, "start": span.start_ns - self.origin_ns, "end": span.end_ns - self.origin_ns,
                "last": last - self.origin_ns}

    @cached_property
    def typical_step(self) -> int | None:
        """The step of median host time: the first ones often pay for something else."""
        times = [span.cpu_ns for span in self.trace.spans.steps]
        return sorted(range(len(times)), key=lambda at: times[at])[len(times) // 2] if times else None

    def between(self, start: int, end: int) -> Ints:
        """Rows that overlap a stretch of time."""
        return np.flatnonzero((self.start <= end) & (self.start + self.length >= start))

    def rows_of(self, events: Ints) -> Ints:
        """The rows of these events; events that are not drawn are left out."""
        order = self._by_event
        at = np.minimum(np.searchsorted(self.event, events, sorter=order), max(len(self) - 1, 0))
        found = order[at] if len(self) else order
        return found[self.event[found] == events] if len(self) else found

    @cached_property
    def configs(self) -> tuple[list[list[Any]], Ints]:
        return configs(self.trace)

    @cached_property
    def _by_event(self) -> Ints:
        return np.argsort(self.event)

    def packed(self, rows: Ints) -> dict[str, Any]:
        """These rows as a page reads them, with parent, launch, shapes, launch configuration and case of each."""
        host, event = self.trace.host, self.event[rows]
        links = _Links(self.trace, event)
        config = _taken(self.configs[1], links.side)
        return pack({
            "event": event, "start": self.start[rows], "length": self.length[rows], "lane": self.lane[rows],
            "row": self.row[rows], "name": host.name[event], "kind": host.kind[event], "parent": host.parent[event],
            "launch": links.launch, "shape": links.shape, "config": config, "case": links.case,
        }, _DIFFERENCES)


class _Links:
    """What the rows of the side tables say about some events; -1 where they say nothing."""

    def __init__(self, trace: Trace, event: Ints) -> None:
        gpu = trace.gpu
        work = _found(gpu.id, event)
        self.launch = _taken(gpu.launch, work)
        self.side = _taken(gpu.side_row, work)
        shapes = trace.tables["shapes"]
        self.shape = _taken(shapes["signature"].to_numpy(), _found(shapes["event"].to_numpy(), event))
        case = np.full(len(gpu), -1, np.int64)
        case[trace.order.row] = trace.order.case
        self.case = _taken(case, work)


def free_rows(start: Ints, end: Ints) -> Ints:
    """For ranges in order of start: the first row on which each finds room."""
    rows = np.zeros(len(start), np.int64)
    if not len(start) or bool((start[1:] >= np.maximum.accumulate(end)[:-1]).all()):
        return rows
    free: list[int] = []
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        row = next((row for row, until in enumerate(free) if until <= begin), min(len(free), MOST_ROWS - 1))
        if row == len(free):
            free.append(finish)
        free[row] = max(free[row], finish)
        rows[at] = row
    return rows


def _tracks(track: Ints, on_gpu: Any) -> list[int]:
    """Tracks with something on them: threads first, streams below."""
    streams = set(np.unique(track[on_gpu]).tolist())
    return sorted(np.unique(track).tolist(), key=lambda number: (number in streams, number))


def _joined(parts: Iterable[Ints]) -> Ints:
    held = list(parts)
    return np.concatenate(held) if held else np.empty(0, np.int64)


def _found(sorted_ids: Ints, wanted: Ints) -> Ints:
    """The position of each id, or -1."""
    if not len(sorted_ids):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(sorted_ids, wanted), len(sorted_ids) - 1)
    return np.where(sorted_ids[at] == wanted, at, -1)


def _taken(values: Ints, at: Ints) -> Ints:
    return np.where(at >= 0, values[np.maximum(at, 0)], -1) if len(values) else np.full(len(at), -1, np.int64)
