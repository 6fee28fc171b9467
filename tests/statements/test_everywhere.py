"""What holds on every trace: one number for one fact, parts that add up, nobody blamed falsely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import foretrace as ft
from foretrace.base.tables import text as drawn
from foretrace.look import summarize
from foretrace.look.documents import Overview
from foretrace.look.lines import first_screen
from foretrace.look.measured_step import TRIAGE, title_of
from foretrace.trace.idle import LATENCY_AMD_NS
from statements.parts import (
    costs_are_possible,
    every_row_has_one_group,
    findings_hold,
    groups_add_up,
)
from statements.places import every, name_of

TRACES = pytest.mark.parametrize("path", every(), ids=name_of)
BOUNDS = {"host", "compute", "memory", "copy", "comms", "sync", "mixed", "unknown"}
KERNEL_BOUNDS = {"compute", "memory", "l2", "latency", "comms", "unknown"}


@pytest.mark.sweep(4)
@TRACES
def test_every_statement_holds(path: Path) -> None:
    """One opening for all properties: a trace takes longer to read than to check."""
    trace = ft.open(path, cache=False)
    found = summarize(trace)
    _fits_a_screen(found)
    _bounds_are_words_of_the_contract(found)
    _parts_add_up(trace, found)
    _queued_work_is_not_the_hosts_fault(trace)
    _advice_agrees(found)
    costs_are_possible(trace)
    every_row_has_one_group(trace)
    groups_add_up(trace)
    findings_hold(trace, found.look.findings)


def _fits_a_screen(found: Overview) -> None:
    for width in (80, 100, 200):
        lines = drawn(first_screen(found, width), width=width).split("\n")
        assert len(lines) <= 25
        assert max(map(len, lines)) <= width


def _advice_agrees(found: Overview) -> None:
    look = found.look
    orders = f"{look.verdict.first} {look.verdict.then}"
    if "can hardly help" in title_of(look.findings, TRIAGE):
        assert not [word for word in ("fuse with", "resolve views") if word in orders]
    if "with_stack" in look.options:
        assert "with_stack=True" not in orders


def _bounds_are_words_of_the_contract(found: Overview) -> None:
    look = found.look
    spans = [look.verdict, *look.steps, *look.regions]
    assert {row.bound for row in spans} <= BOUNDS
    assert {row.bound for row in look.kernels} <= KERNEL_BOUNDS


def _parts_add_up(trace: ft.Trace, found: Overview) -> None:
    look = found.look
    kernels = int(trace.gpu.length[trace.gpu.is_kernel & trace.gpu.usable].sum())
    assert sum(row.total_ns or 0 for row in look.kernels) == kernels
    assert sum(row.count for row in look.kernels) == look.totals.kernels
    if look.groups:
        assert sum(row.share for row in look.groups) == pytest.approx(1, abs=0.01)
    if found.per == "per step":
        busy, time = trace.spans.median_busy(trace.spans.steps), sum(r.time_ns for r in look.groups)
        assert time == pytest.approx(busy, abs=len(look.groups) + 1)
    assert (look.mfu or 0) <= (look.mfu_gpu or 0)
    assert (look.mbu or 0) <= (look.mbu_gpu or 0)
    for step, span in zip(look.steps, trace.spans.steps, strict=True):
        start, end = trace.spans.window(span)
        assert (step.gpu_busy_ns or 0) <= max(end - start, 0) + _overlap(trace, span.work)


def _overlap(trace: ft.Trace, work: np.ndarray) -> int:
    """What of a step's work ran while earlier work still did, or on another GPU."""
    return trace.gpu.busy(work) if len(np.unique(trace.gpu.lane[work])) > 1 else 0


def _queued_work_is_not_the_hosts_fault(trace: ft.Trace) -> None:
    """Idle time that is the host's ends when the next work is launched, but for the way there."""
    gaps, host, gpu = trace.gaps.every, trace.host, trace.gpu
    blamed = gaps.of("sync", "launch", "host", "copy", "profiler") & (gaps.then >= 0)
    launch = gpu.launch[gaps.then[blamed]]
    known = launch >= 0
    arrived = host.end[launch[known]] + trace.tables.gpu_lag_ns + LATENCY_AMD_NS
    assert (gaps.end[blamed][known] <= arrived).all()
