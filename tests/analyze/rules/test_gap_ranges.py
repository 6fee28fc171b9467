"""Findings about idle time list their gaps: on every recording, and on gaps made by hand."""

from __future__ import annotations

import numpy as np
import pytest

import foretrace
from foretrace.analyze.rules import run_all
from foretrace.analyze.rules._idle import RANGES, ranges
from foretrace.model.idle import Idle
from foretrace.read.recordings import traces

IDLE = ("idle_gaps", "launch_bound", "sync_stalls", "unfused_optimizer")


def idle(*parts: tuple[int, int, int]) -> Idle:
    """Gaps by start, end and device."""
    start, end, device = np.array(parts, np.int64).reshape(-1, 3).T
    nothing = np.zeros(len(start), np.int64)
    return Idle(start, end, nothing, nothing, device, nothing, 0)


def test_parts_that_follow_each_other_are_one_gap_and_the_longest_comes_first() -> None:
    found = ranges(idle((5, 9, 0), (9, 10, 0), (0, 3, 0), (10, 12, 1), (12, 30, 1)))
    assert found == ((10, 30, 1), (5, 10, 0), (0, 3, 0))
    assert ranges(idle()) == ()
    many = ranges(idle(*((10 * at, 10 * at + 1, 0) for at in range(RANGES + 5))))
    assert len(many) == RANGES


@pytest.mark.parametrize("name", sorted(traces()))
def test_no_work_runs_in_a_gap(name: str) -> None:
    trace = foretrace.open(traces()[name], cache=False)
    gpu = trace.gpu
    for finding in run_all(trace):
        assert finding.state != "crashed", finding.detail
        assert not finding.ranges or finding.rule in IDLE
        lengths = [end - start for start, end, _ in finding.ranges]
        assert lengths == sorted(lengths, reverse=True)
        for start, end, device in finding.ranges:
            mine = gpu.usable & (gpu.device_number == device)
            assert start < end
            assert not (mine & (gpu.start < end) & (gpu.end > start)).any()
        if finding.rule == "idle_gaps" and finding.state == "found" and len(lengths) < RANGES:
            assert sum(lengths) == finding.evidence["idle_ns"]
            assert lengths[0] >= finding.evidence["longest_ns"]
