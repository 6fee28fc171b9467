"""What one rank does at any time, and its steps as windows that tile the recording.

A rank computes, communicates, copies or does nothing; work on all streams counts. On a rank without
GPU work, ops on the host are its compute and collectives on the host its communication.

A window begins where the GPU work of the step before ends. The first window begins with its host
range, and so does one whose number does not follow. GPU work belongs to the step that launched it.
Where no launch is recorded, it belongs to the window in which it starts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct, with_gaps
from foretrace.base.patterns import regex
from foretrace.model.host import step_number
from foretrace.model.intervals import Bools, Floats, IntervalUnion, Ints
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.names import families
from foretrace.schema.jobs import WITHOUT_STEPS

KINDS = ("compute", "comms", "copy")
COMPUTE, COMMS, COPY = range(3)
HOST_COMMS = regex(r"(?:gloo|mpi|ucc):\w+")  # collectives that ran on the host
_COMMS_OP = regex(r"_?c10d|record_param_comms|(?:gloo|mpi|ucc):")
DATA = regex(r"(?i)data_?loader|(?:get|next|load)_batch")  # a thread waits for data


class RankWork(Struct, frozen=True):
    """Work in order of time, each of one of `KINDS`; `event` is its row of `events`.

    `row` is its row of `gpu`; it has no meaning where the work is on the host.
    """

    event: Ints
    row: Ints
    kind: Ints
    start: Ints
    end: Ints
    on_host: bool

    def of(self, *kinds: int) -> IntervalUnion:
        """When work of these kinds ran."""
        chosen = np.isin(self.kind, kinds)
        return IntervalUnion(self.start[chosen], self.end[chosen])


class Doing(Struct, frozen=True):
    """Unions over all streams, to be asked about any stretch of time."""

    compute: IntervalUnion
    comms: IntervalUnion
    compute_or_comms: IntervalUnion
    anything: IntervalUnion
    anything_or_data: IntervalUnion

    def between(self, start: Ints, end: Ints) -> dict[str, Ints]:
        """For each stretch the times of the table `steps`."""
        compute, comms = self.compute.between(start, end), self.comms.between(start, end)
        useful, busy = (each.between(start, end) for each in (self.compute_or_comms, self.anything))
        idle, data = end - start - busy, self.anything_or_data.between(start, end) - busy
        return {
            "compute_ns": compute,
            "comms_ns": comms,
            "both_ns": compute + comms - useful,
            "copy_ns": busy - useful,
            "idle_ns": idle,
            "data_ns": data,
            "host_ns": idle - data,
        }


def work_of(trace: Trace) -> RankWork:
    """The GPU work of a rank; where there is none, its ops and collectives on the host.

    Collectives are known by their name, or by what is recorded beside them.
    """
    gpu, host = trace.gpu, trace.host
    if not len(gpu):
        return _on_host(trace)
    name, kind = host.name[gpu.id], np.where(gpu.is_kernel, COMPUTE, COPY)
    used = distinct(name[gpu.is_kernel]).tolist()
    talking = [at for at in used if families.decode(host.names[at]).role == KINDS[COMMS]]
    stated = np.isin(gpu.id, trace.tables["comms"]["event"].to_numpy())
    kind[gpu.is_kernel & (np.isin(name, talking) | stated)] = COMMS
    rows = np.flatnonzero(gpu.usable)
    return RankWork(gpu.id[rows], rows, kind[rows], gpu.start[rows], gpu.end[rows], False)


def _on_host(trace: Trace) -> RankWork:
    host, talking, loading = trace.host, ranges(trace, HOST_COMMS), ranges(trace, DATA)
    data = IntervalUnion(host.start[loading], host.end[loading])
    ops = np.flatnonzero(host.is_op & host.lasting & ~host.named(_COMMS_OP.match, host.is_op))
    ops = ops[~data.holds(host.start[ops])]
    event = np.concatenate((ops, talking))
    kind = np.repeat([COMPUTE, COMMS], [len(ops), len(talking)])
    order = np.argsort(host.start[event], kind="stable")
    event, kind = event[order], kind[order]
    return RankWork(event, event, kind, host.start[event], host.end[event], True)


def ranges(trace: Trace, pattern: re.Pattern[str]) -> Ints:
    """The ranges with such a name; a trace with stacks has many more names of Python functions."""
    host = trace.host
    among = host.is_kind("user_annotation", "cpu_op") & host.lasting
    return np.flatnonzero(host.named(pattern.search, among))


def doing(trace: Trace, work: RankWork) -> Doing:
    """What the rank did, and when its data loader was at work."""
    host, loading = trace.host, ranges(trace, DATA)
    if len(trace.gpu) and not trace.gpu.aligned:
        loading = loading[:0]  # times of another clock do not explain a gap
    anything = work.of(*range(len(KINDS)))
    start = np.concatenate((anything.start, host.start[loading]))
    end = np.concatenate((anything.end, host.end[loading]))
    useful = work.of(COMPUTE, COMMS)
    return Doing(work.of(COMPUTE), work.of(COMMS), useful, anything, IntervalUnion(start, end))


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
    """The windows of a recording; one without steps is one step.

    A number has one range: the first, and of those that begin together the longest.
    """
    by_number: dict[int, Span] = {}
    for span in sorted(trace.spans.steps, key=lambda span: (span.start_ns, -span.end_ns)):
        by_number.setdefault(step_number(span.name) or 0, span)
    spans = list(by_number.values())
    if not spans:
        return _one(trace, work)
    number, start, end, begin, reach = np.array(_tiles(trace, spans), np.int64).T
    whole = np.ones(len(spans), bool)
    found = Windows(number, start, end, begin, reach, np.zeros(0, np.int64), whole)
    owner = _owners(trace, spans, work, found)
    return replace(found, owner=owner, whole=_whole(trace, spans, work, owner))


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
