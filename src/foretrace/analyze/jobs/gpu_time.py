"""What a rank does at any time: it computes, communicates, copies, or does nothing.

Work on all streams counts. On a rank without GPU work, ops on the host compute, and collectives on
the host communicate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from foretrace.model.intervals import Bools, IntervalUnion, Ints
from foretrace.names import families
from foretrace.schema.kernel import NAME_LIMIT

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

KINDS = ("compute", "comms", "copy")
COMPUTE, COMMS, COPY = range(3)
_HOST_COMMS = re.compile(r"(?:gloo|mpi|ucc):\w+")
_COMMS_OP = re.compile(r"_?c10d|record_param_comms|(?:gloo|mpi|ucc):")
_DATA = re.compile(r"(?i)data_?loader|(?:get|next|load)_batch")


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
    """The GPU work of a rank; where there is none, its ops and collectives on the host."""
    gpu = trace.gpu
    if not len(gpu):
        return _on_host(trace)
    rows = np.flatnonzero(gpu.usable)
    kind = np.where(gpu.is_kernel, COMPUTE, COPY)
    kind[_talks(trace)] = COMMS
    return RankWork(gpu.id[rows], rows, kind[rows], gpu.start[rows], gpu.end[rows], False)


def _talks(trace: Trace) -> Bools:
    """Which rows of `gpu` are collectives: by their name, or by what is recorded beside them."""
    gpu, host = trace.gpu, trace.host
    name = host.name[gpu.id]
    used = np.unique(name[gpu.is_kernel]).tolist()
    talking = [at for at in used if families.decode(host.names[at]).role == KINDS[COMMS]]
    stated = np.isin(gpu.id, trace.tables["comms"]["event"].to_numpy())
    found: Bools = gpu.is_kernel & (np.isin(name, talking) | stated)
    return found


def _on_host(trace: Trace) -> RankWork:
    host, talking, loading = trace.host, host_comms(trace), data_ranges(trace)
    data = IntervalUnion(host.start[loading], host.end[loading])
    ops = np.flatnonzero(host.is_op & host.lasting & ~host.named(_COMMS_OP.match))
    ops = ops[~data.holds(host.start[ops])]
    event = np.concatenate((ops, talking))
    kind = np.repeat([COMPUTE, COMMS], [len(ops), len(talking)])
    order = np.argsort(host.start[event], kind="stable")
    event, kind = event[order], kind[order]
    return RankWork(event, event, kind, host.start[event], host.end[event], True)


def host_comms(trace: Trace) -> Ints:
    """The collectives that ran on the host: events."""
    return _ranges(trace, _HOST_COMMS)


def data_ranges(trace: Trace) -> Ints:
    """The ranges in which a thread waits for the data loader: events."""
    return _ranges(trace, _DATA)


def _ranges(trace: Trace, pattern: re.Pattern[str]) -> Ints:
    """Of the ranges alone: a trace with stacks has many more names of Python functions."""
    host = trace.host
    rows = np.flatnonzero(host.is_kind("user_annotation", "cpu_op") & host.lasting)
    names = np.unique(host.name[rows]).tolist()
    meant = [name for name in names if pattern.search(host.names[name][:NAME_LIMIT])]
    return rows[np.isin(host.name[rows], meant)]


def doing(trace: Trace, work: RankWork) -> Doing:
    """What the rank did, and when its data loader was at work."""
    host, loading = trace.host, data_ranges(trace)
    if len(trace.gpu) and not trace.gpu.aligned:
        loading = loading[:0]  # by another clock it says nothing about a gap
    anything = work.of(*range(len(KINDS)))
    start = np.concatenate((anything.start, host.start[loading]))
    end = np.concatenate((anything.end, host.end[loading]))
    useful = work.of(COMPUTE, COMMS)
    return Doing(work.of(COMPUTE), work.of(COMMS), useful, anything, IntervalUnion(start, end))
