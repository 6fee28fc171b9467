"""The steps of a rank, and the windows that tile its recording.

A window begins where the GPU work of the step before ends. The first begins with its host range,
and so does one whose number does not follow. GPU work belongs to the step that launched it; where
no launch is recorded, to the window in which it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.analyze.jobs.gpu_time import COMMS, COPY, Doing, RankWork
from foretrace.model.host import step_number
from foretrace.model.intervals import Bools, Floats, Ints
from foretrace.model.spans import Span
from foretrace.schema.gaps import with_gaps
from foretrace.schema.jobs import WITHOUT_STEPS

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_FEW = 0.5  # of the median step, in work and in time: a step at either end with less was cut
_LOST = 0.01  # of the launches of a step: their GPU events are missing


class Windows(Struct, frozen=True):
    """Steps in order of time; `owner` is the place of the step of each piece of work, or -1."""

    number: Ints
    start: Ints
    end: Ints
    window_start: Ints
    window_end: Ints
    owner: Ints
    whole: Bools

    def at(self, moments: Ints) -> Ints:
        """The place of the window that holds each moment, or -1."""
        place = np.searchsorted(self.window_start, moments, "right") - 1
        inside = (place >= 0) & (moments < self.window_end[np.maximum(place, 0)])
        return np.where(inside, place, -1)

    def numbers(self, places: Ints) -> pl.Series:
        """The number of the step at each place; null where the place is -1."""
        return with_gaps(self.number[np.maximum(places, 0)], places >= 0, "step")


def windows(trace: Trace, work: RankWork) -> Windows:
    """The windows of a recording; one without steps is one step."""
    spans = _steps(trace)
    if not spans:
        return _one(trace, work)
    number, start, end, begin, reach = np.array(_tiles(trace, spans), np.int64).T
    whole = np.ones(len(spans), bool)
    found = Windows(number, start, end, begin, reach, np.zeros(0, np.int64), whole)
    owner = _owners(trace, spans, work, found)
    return replace(found, owner=owner, whole=_whole(trace, spans, work, owner))


def _steps(trace: Trace) -> list[Span]:
    """One range for each number: the first, and of those that begin together the longest."""
    found: dict[int, Span] = {}
    for span in sorted(trace.spans.steps, key=lambda span: (span.start_ns, -span.end_ns)):
        found.setdefault(step_number(span.name) or 0, span)
    return list(found.values())


def _tiles(trace: Trace, spans: Sequence[Span]) -> list[tuple[int, int, int, int, int]]:
    gpu, rows, reach, before = trace.gpu, [], 0, -2
    for span in spans:
        number = step_number(span.name) or 0
        begin = reach if before == number - 1 else max(reach, span.start_ns)
        ends = gpu.end[span.work][gpu.usable[span.work]]
        reach = max(begin, int(ends.max()) if len(ends) else span.end_ns)
        rows.append((number, span.start_ns, span.end_ns, begin, reach))
        before = number
    return rows


def _one(trace: Trace, work: RankWork) -> Windows:
    host = trace.host
    seen = host.lasting & ~host.is_kind("span", "overhead")
    start, end = host.start[seen], host.end[seen]
    edges = (start.min(initial=start[0]), end.max(initial=end[0])) if len(start) else (0, 0)
    first, last = (np.array([edge], np.int64) for edge in edges)
    owner, whole = np.zeros(len(work.row), np.int64), np.array([not trace.ledger.gap])
    return Windows(np.array([WITHOUT_STEPS]), first, last, first, last, owner, whole)


def _owners(trace: Trace, spans: Sequence[Span], work: RankWork, found: Windows) -> Ints:
    by_time = found.at(work.start)
    if work.on_host:
        return by_time
    gpu = trace.gpu
    owner = np.full(len(gpu), -1, np.int64)
    for place, span in enumerate(spans):
        owner[span.work] = place
    unlinked = (gpu.launch < 0) & ~gpu.before_recording
    return np.where(unlinked[work.row], by_time, owner[work.row])


def _whole(trace: Trace, spans: Sequence[Span], work: RankWork, owner: Ints) -> Bools:
    """Not cut: neither by the start or the end of the recording, nor by what the file has lost."""
    count = np.bincount(owner[owner >= 0], minlength=len(spans))
    whole = np.ones(len(spans), bool)
    if len(spans) > 1:
        lasts = np.array([span.cpu_ns for span in spans])
        for edge in (0, -1):
            less = [each[edge] < _FEW * np.median(np.delete(each, edge)) for each in (count, lasts)]
            whole[edge] = not all(less)
    if trace.ledger.gap:
        whole &= (count == count.max()) & (len(spans) > 1)
    if not work.on_host and trace.ledger.count("gpu_events_missing"):
        whole &= _lost_share(trace, spans) <= _LOST
    return whole


def _lost_share(trace: Trace, spans: Sequence[Span]) -> Floats:
    """The share of each step's launches without their GPU event."""
    host, gpu = trace.host, trace.gpu
    calls = np.flatnonzero(host.is_launch & host.timed)
    calls = calls[~host.captures.holds(host.start[calls])]
    lost = calls[~np.isin(calls, gpu.launch)]
    starts, ends = ([span.start_ns for span in spans], [span.end_ns for span in spans])

    def inside(rows: Ints) -> Ints:
        moments = np.sort(host.start[rows])
        return np.searchsorted(moments, ends) - np.searchsorted(moments, starts)

    return inside(lost) / np.maximum(inside(calls), 1)


def steps_table(found: Windows, work: RankWork, now: Doing) -> pl.DataFrame:
    """The table `steps`."""
    kernels = (work.kind != COPY) & (not work.on_host)
    counts = {
        name: np.bincount(found.owner[chosen & (found.owner >= 0)], minlength=len(found.number))
        for name, chosen in (("kernels", kernels), ("collectives", work.kind == COMMS))
    }
    return pl.DataFrame(
        {
            "step": found.number,
            "start_ns": found.start,
            "end_ns": found.end,
            "window_start_ns": found.window_start,
            "window_end_ns": found.window_end,
            **now.between(found.window_start, found.window_end),
            **counts,
            "whole": found.whole,
        }
    )
