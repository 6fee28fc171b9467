"""What a rank does at any time: computes, communicates, copies, or nothing; over all its streams.

On a rank without GPU work, ops on the host compute and collectives on the host communicate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace import families
from foretrace.model.covered import Covered
from foretrace.model.host import step_number
from foretrace.model.intervals import Bools, Ints
from foretrace.schema.jobs import PAUSE_NS, WITHOUT_STEPS

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

COMPUTE, COMMS, COPY = "compute", "comms", "copy"
KINDS = (COMPUTE, COMMS, COPY)
HOST_COMMS = re.compile(r"(?:gloo|mpi|ucc):\w+")
_COMMS_OP = re.compile(r"_?c10d|record_param_comms|gloo:|mpi:|ucc:")
_DATA = re.compile(r"(?i)data_?loader|(?:get|next|load)_batch")


class Busy(Struct, frozen=True):
    """GPU work of a rank: place in `KINDS`, lane and times of each; `row` is a row of `gpu`."""

    row: Ints
    kind: Ints
    start: Ints
    end: Ints

    def of(self, *kinds: str) -> Covered:
        """When work of these kinds ran."""
        chosen = np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        return Covered(self.start[chosen], self.end[chosen])


class Doing(Struct, frozen=True):
    """Unions over all streams: what is asked for any stretch of time."""

    compute: Covered
    comms: Covered
    working: Covered  # compute or comms
    any: Covered
    any_or_data: Covered

    def between(self, start: Ints, end: Ints) -> dict[str, Ints]:
        """The times of the table `steps`, for each stretch."""
        compute, comms = self.compute.between(start, end), self.comms.between(start, end)
        working, busy = self.working.between(start, end), self.any.between(start, end)
        idle = end - start - busy
        data = self.any_or_data.between(start, end) - busy
        return {
            "compute_ns": compute,
            "comms_ns": comms,
            "both_ns": compute + comms - working,
            "copy_ns": busy - working,
            "idle_ns": idle,
            "data_ns": data,
            "host_ns": idle - data,
        }


class Windows(Struct, frozen=True):
    """The steps of a recording in order of time, and the windows that tile it."""

    number: Ints
    start: Ints
    end: Ints
    window_start: Ints
    window_end: Ints

    def step_at(self, moments: Ints) -> Ints:
        """The place of the window that holds each moment, or -1."""
        at = np.searchsorted(self.window_start, moments, "right") - 1
        inside = (at >= 0) & (moments < self.window_end[np.maximum(at, 0)])
        return np.where(inside, at, -1)


def busy(trace: Trace) -> Busy:
    """The GPU work of a rank; on a rank without any, its ops and collectives on the host."""
    gpu = trace.gpu
    if not len(gpu):
        return _host_work(trace)
    rows = np.flatnonzero(gpu.usable)
    kind = np.full(len(gpu), KINDS.index(COPY))
    kind[gpu.is_kernel] = KINDS.index(COMPUTE)
    kind[is_comms(trace)] = KINDS.index(COMMS)
    return Busy(rows, kind[rows], gpu.start[rows], gpu.end[rows])


def is_comms(trace: Trace) -> Bools:
    """Which rows of `gpu` are collectives."""
    gpu, host = trace.gpu, trace.host
    name = host.name[gpu.id]
    used = np.unique(name[gpu.is_kernel])
    talking = [at for at in used.tolist() if families.decode(host.names[at]).role == COMMS]
    found: Bools = gpu.is_kernel & np.isin(name, talking)
    stated = np.isin(gpu.id, trace.tables["comms"]["event"].to_numpy())
    return found | (gpu.is_kernel & stated)


def host_comms(trace: Trace) -> Ints:
    """Collectives that ran on the host: what a backend without a GPU annotates."""
    host = trace.host
    ranges = host.is_kind("user_annotation", "cpu_op") & host.lasting
    return np.flatnonzero(ranges & host.named(HOST_COMMS.fullmatch))


def data_ranges(trace: Trace) -> Ints:
    """Ranges in which the data loader is asked for a batch."""
    host = trace.host
    ranges = host.is_kind("user_annotation", "cpu_op") & host.lasting
    return np.flatnonzero(ranges & host.named(_DATA.search))


def _host_work(trace: Trace) -> Busy:
    host, talking = trace.host, host_comms(trace)
    waits = data_ranges(trace)
    data = Covered(host.start[waits], host.end[waits])
    ops = host.is_op & host.lasting & ~host.named(_COMMS_OP.match)
    rows = np.flatnonzero(ops)
    rows = rows[~data.holds(host.start[rows])]
    both = np.concatenate((rows, talking))
    kind = np.repeat([KINDS.index(COMPUTE), KINDS.index(COMMS)], [len(rows), len(talking)])
    order = np.argsort(host.start[both], kind="stable")
    return Busy(both[order], kind[order], host.start[both][order], host.end[both][order])


def doing(trace: Trace, work: Busy) -> Doing:
    """The unions of a rank's work and of its data loader."""
    host, waits = trace.host, data_ranges(trace)
    if len(trace.gpu) and not trace.gpu.aligned:
        waits = waits[:0]  # by another clock
    all_of = work.of(*KINDS)
    start = np.concatenate((all_of.start, host.start[waits]))
    end = np.concatenate((all_of.end, host.end[waits]))
    working = work.of(COMPUTE, COMMS)
    return Doing(work.of(COMPUTE), work.of(COMMS), working, all_of, Covered(start, end))


def windows(trace: Trace, work: Busy) -> Windows:
    """The windows of the steps; a recording without steps is one."""
    spans = sorted(trace.spans.steps, key=lambda span: (span.start_ns, -span.end_ns))
    if not spans:
        return _whole(trace, work)
    number = [step_number(span.name) or 0 for span in spans]
    rows, begin = [], 0
    for at, span in enumerate(spans):
        ends = trace.gpu.end[span.work][trace.gpu.usable[span.work]]
        follows = at > 0 and number[at] == number[at - 1] + 1
        begin = begin if follows else max(begin, span.start_ns)
        reach = int(ends.max()) if len(ends) else span.end_ns
        reach = max(reach, begin)
        rows.append((number[at], span.start_ns, span.end_ns, begin, reach))
        begin = reach
    columns = np.array(rows, np.int64).T
    return Windows(*columns)


def _whole(trace: Trace, work: Busy) -> Windows:
    host = trace.host
    rows = host.lasting & ~host.is_kind("span", "overhead")
    first, last = host.start[rows], host.end[rows]
    start, end = (int(first.min()), int(last.max())) if len(first) else (0, 0)
    one = np.array([start]), np.array([end])
    return Windows(np.array([WITHOUT_STEPS]), *one, *one)


def steps_table(trace: Trace, found: Windows, now: Doing, talking: pl.DataFrame) -> pl.DataFrame:
    """The table `steps`."""
    times = now.between(found.window_start, found.window_end)
    gpu = trace.gpu
    at = found.step_at(gpu.start[gpu.usable & gpu.is_kernel])
    kernels = np.bincount(at[at >= 0], minlength=len(found.number))
    collectives = [talking.filter(step=number).height for number in found.number.tolist()]
    return pl.DataFrame(
        {
            "step": found.number,
            "start_ns": found.start,
            "end_ns": found.end,
            "window_start_ns": found.window_start,
            "window_end_ns": found.window_end,
            **times,
            "kernels": kernels,
            "collectives": collectives,
            "whole": np.ones(len(found.number), bool),
        }
    )


def spans_table(trace: Trace, work: Busy, found: Windows) -> pl.DataFrame:
    """The table `spans`: work of one kind on one stream without a pause."""
    host, gpu = trace.host, trace.gpu
    event = gpu.id[work.row] if len(gpu) else work.row
    lane = gpu.lane[work.row] if len(gpu) else host.track[work.row].astype(np.int64)
    order = np.lexsort((work.start, lane))
    kind, start, end, lane, event = (
        each[order] for each in (work.kind, work.start, work.end, lane, event)
    )
    stream = gpu.stream[work.row][order] if len(gpu) else lane
    step = found.step_at(start)
    reach = _reach(lane, start, end)
    talks = kind == KINDS.index(COMMS)
    opens = np.ones(len(start), bool)
    opens[1:] = (
        (lane[1:] != lane[:-1])
        | (kind[1:] != kind[:-1])
        | (step[1:] != step[:-1])
        | talks[1:]
        | (start[1:] - reach[:-1] > PAUSE_NS)
    )
    number = np.cumsum(opens) - 1
    frame = pl.DataFrame(
        {
            "span": number,
            "step": np.where(step >= 0, found.number[step], np.iinfo(np.int64).min),
            "kind": pl.Series(KINDS, dtype=pl.String)[kind],
            "stream": stream,
            "start_ns": start,
            "end_ns": end,
            "length": end - start,
            "name": host.name[event],
            "collective": np.where(talks, event, -1),
        }
    )
    names = {at: short(host.names[at]) for at in frame["name"].unique().to_list()}
    none = np.iinfo(np.int64).min
    return frame.group_by("span", maintain_order=True).agg(
        pl.col("step").first().replace(none, None),
        pl.col("kind", "stream").first(),
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        pl.len().alias("count"),
        pl.col("name").sort_by("length").last().replace_strict(names, return_dtype=pl.String),
        pl.col("collective").first().replace(-1, None),
    )


def _reach(lane: Ints, start: Ints, end: Ints) -> Ints:
    """The latest end so far on each lane; rows are sorted by lane."""
    if not len(end):
        return end
    shift = lane * (int(end.max()) - int(start.min()) + 1) - int(start.min())
    return np.maximum.accumulate(end + shift) - shift


def short(name: str) -> str:
    """The short name of a kernel; that of an op is its own."""
    return families.decode(name).short
