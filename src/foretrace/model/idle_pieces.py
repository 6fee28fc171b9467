"""Idle time cut so that its pieces add up to the time of every cause in any range.

A gap between ops and calls has one cause (`model/idle.py`), but its time counts as `launch` where
the host was inside an op or a call, and as `host` where it was not. Here such a gap is cut at those
moments: the pieces of a range then sum to what `Idle.by_cause` says of it, to the nanosecond.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.model.analysis import Analysis
from foretrace.model.covered import Covered
from foretrace.model.idle import CAUSES, Idle
from foretrace.model.intervals import Bools, Ints

# not a cause but a doubt: the host made launches in the gap whose GPU work is not in the trace
UNPROVEN = len(CAUSES)
_LAUNCH, _HOST = CAUSES.index("launch"), CAUSES.index("host")


class IdlePieces(Struct, frozen=True):
    """By device, in order of time; pieces of one gap touch each other. `cause` is a place in
    CAUSES, or UNPROVEN.
    """

    start: Ints
    end: Ints
    cause: Ints
    device: Ints


def idle_pieces(trace: Analysis) -> IdlePieces:
    """All idle time of a recording, from its first step on."""
    every, issuing = trace.gaps.every, trace.gaps.issuing
    doubted = unproven(trace, every)
    cut = every.of("launch", "host") & ~doubted
    cause = np.where(doubted, UNPROVEN, every.cause)
    parts = [_columns(every, cause, ~cut)]
    for device in np.unique(every.device[cut]).tolist():
        mine = cut & (every.device == device)
        start, end, inside = _cut(every.start[mine], every.end[mine], issuing)
        number = np.full(len(start), device, np.int64)
        parts.append((start, end, np.where(inside, _LAUNCH, _HOST), number))
    start, end, cause, number = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((start, number))
    return IdlePieces(start[order], end[order], cause[order], number[order])


def lost_launches(trace: Analysis) -> Ints:
    """Launches without GPU work in the trace: captured into a graph, or their events were lost."""
    lost, launch = trace.host.is_launch & trace.host.timed, trace.gpu.launch
    lost[launch[launch >= 0]] = False
    return np.flatnonzero(lost)


def unproven(trace: Analysis, idle: Idle) -> Bools:
    """Gaps in which the host made such launches: what they launched may have run in the gap."""
    made = np.sort(trace.host.start[lost_launches(trace)])
    return np.searchsorted(made, idle.start) < np.searchsorted(made, idle.end)


def _columns(idle: Idle, cause: Ints, chosen: Bools) -> tuple[Ints, Ints, Ints, Ints]:
    return idle.start[chosen], idle.end[chosen], cause[chosen], idle.device[chosen]


def _cut(start: Ints, end: Ints, issuing: Covered) -> tuple[Ints, Ints, Bools]:
    """Stretches that do not overlap, in order, cut at the edges of `issuing`; which are inside."""
    edges = np.unique(np.concatenate((start, end, issuing.start, issuing.end)))
    begin, finish = edges[:-1], edges[1:]
    kept = _within(start, end, begin, finish)
    begin, finish = begin[kept], finish[kept]
    return begin, finish, _within(issuing.start, issuing.end, begin, finish)


def _within(start: Ints, end: Ints, begin: Ints, finish: Ints) -> Bools:
    """Which stretches lie inside one of some others, that do not overlap."""
    if not len(start):
        return np.zeros(len(begin), bool)
    at = np.searchsorted(start, begin, side="right") - 1
    return (at >= 0) & (finish <= end[np.maximum(at, 0)])
