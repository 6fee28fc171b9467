"""Pieces of idle time against what `Gaps` says of any range."""

from __future__ import annotations

import numpy as np
import pytest

import foretrace
from foretrace.read.recordings import traces
from foretrace.trace.idle import CAUSES, UNPROVEN, idle_pieces, unproven
from opened_traces import opened


@pytest.mark.parametrize("name", sorted(traces()))
def test_pieces_sum_to_every_cause_in_any_range(name: str) -> None:
    trace = opened(traces()[name])
    pieces, every = idle_pieces(trace, trace.gaps), trace.gaps.every
    assert int((pieces.end - pieces.start).sum()) == int(every.length.sum())
    assert not unproven(trace, every).any()
    random = np.random.default_rng(1)
    times = random.integers(pieces.start.min(), pieces.end.max(), (20, 2))
    for low, high in np.sort(times, axis=1).tolist():
        wanted = trace.gaps.inside([(0, low, high)]).by_cause()
        time = np.minimum(pieces.end, high) - np.maximum(pieces.start, low)
        here = time > 0
        found = np.bincount(pieces.cause[here], time[here], len(CAUSES))
        assert {CAUSES[at]: int(ns) for at, ns in enumerate(found) if ns} == wanted


def test_a_gap_with_launches_that_ran_nowhere_is_unproven() -> None:
    trace = foretrace.open(traces()["mlp_eager"], cache=False)
    gaps, calls = trace.gaps.every, np.unique(trace.gpu.launch)
    calls = calls[trace.host.is_launch[calls]]
    made = trace.host.start[calls]
    inside = ((made >= gaps.start[:, None]) & (made < gaps.end[:, None])).any(axis=0)
    lost = int(calls[inside][0])
    trace.gpu.launch[trace.gpu.launch == lost] = -1
    doubted = idle_pieces(trace, trace.gaps)
    at = int(np.flatnonzero(doubted.cause == UNPROVEN)[0])
    assert doubted.start[at] <= trace.host.start[lost] < doubted.end[at]
