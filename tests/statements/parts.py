"""What holds of the costs, groups and findings of every trace; `test_everywhere` opens each once."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import foretrace as ft
from foretrace.look.documents import Finding
from foretrace.look.groups import group_rows, sequences
from foretrace.look.lines import folded
from foretrace.look.rules import RANGES, rules
from foretrace.look.rules.launches import graph_rows
from foretrace.look.rules.training import FUSED, optimizer_rows
from foretrace.trace.metadata import device_of
from foretrace.trace.utilization import utilization


def costs_are_possible(trace: ft.Trace) -> None:
    """No rate above a peak, and a phrase for every kernel whose cost is known."""
    device, cases = device_of(trace.about), trace.kernel_cases
    known = cases.filter(pl.any_horizontal(pl.col("flops", "bytes").is_not_null()))
    assert "" not in set(known["limited_by"])
    assert known.filter(pl.col("cost_certainty") == "none")["bytes"].null_count() == len(
        known.filter(pl.col("cost_certainty") == "none")
    )
    assert cases["roof_percent"].drop_nulls().is_between(0, 100).all()
    shares = utilization(trace)
    for share in (shares.mfu_gpu, shares.mfu_wall, shares.mbu_gpu, shares.mbu_wall):
        assert share is None or 0 <= share < 1
    if device is None:
        return
    rows = [row for sequence in sequences(trace) for row in sequence.rows]
    rates = [*cases.select("gbps", "bound").iter_rows(), *((row.gbps, row.bound) for row in rows)]
    gbps, cached = (
        [rate or 0 for rate, bound in rates if (bound == "l2") is from_l2]
        for from_l2 in (False, True)
    )
    tflops = [*cases["tflops"].drop_nulls(), *(row.tflops or 0 for row in rows)]
    assert max(gbps, default=0) <= device.bytes_per_s / 1e9
    roof = device.measured.l2_bytes_per_s if device.measured else None
    assert max(cached, default=0) <= (roof or 0) / 1e9
    assert max(tflops, default=0) <= max(device.peak_flops.values()) / 1e12
    exact = known.filter(pl.col("median_ns") > 0, pl.col("cost_certainty") == "exact")
    assert "unknown" not in set(exact["bound"])


def every_row_has_one_group(trace: ft.Trace) -> None:
    """And steps that launch the same have the same groups."""
    found = trace.grouped
    assert len(found.group) == len(found.call) == len(trace.gpu)
    assert all(found.names[number] for number in np.unique(found.group).tolist())
    assert len(set(found.names)) == len(found.names)
    text, name = trace.work_groups, trace.host.name[trace.gpu.id]
    seen: dict[bytes, list[str]] = {}
    for span in trace.spans.steps:
        named = text[span.work].tolist()
        assert seen.setdefault(name[span.work].tobytes(), named) == named


def groups_add_up(trace: ft.Trace) -> None:
    """To the GPU time of the median step, folded or not."""
    gpu, found = trace.gpu, group_rows(trace, trace.spans.steps)
    works = [span.work for span in trace.spans.steps]
    overlap = any(gpu.busy(work) < int(gpu.length[work].sum()) for work in works)
    if works and not overlap:
        median = trace.spans.median_busy(trace.spans.steps) or 0
        assert sum(row.time_ns for row in found) == pytest.approx(median, abs=len(found))
    few = folded(found)
    assert len(few) <= 11
    assert few == found or few[-1].share < 0.1 or len(few) == 11
    assert sum(row.time_ns for row in few) == sum(row.time_ns for row in found)
    assert sum(row.count for row in few) == sum(row.count for row in found)


# Rules whose saving is part of the GPU time that their evidence states.
FROM_KERNELS = frozenset(["addmm_copy", "casts", "exposed_comms", "library_fills", "old_kernels"])
IDLE = ("idle_gaps", "launch_bound", "sync_stalls", "unfused_optimizer")


def findings_hold(trace: ft.Trace, findings: list[Finding]) -> None:
    """No rule fails. Savings, titles, advice and gaps fit the trace."""
    assert {finding.rule for finding in findings} == {rule.name for rule in rules()}
    found = [finding for finding in findings if finding.state == "found"]
    for finding in findings:
        assert finding.state != "crashed", finding
        gaps_are_idle(trace, finding)
    for finding in found:
        saving_is_there(finding, step_ns(trace))
        assert len(finding.title) <= 140, finding.title
        assert not finding.title.endswith(".")
        assert not finding.fix.endswith(".")
    advice_is_not_followed_yet(trace, found)


def step_ns(trace: ft.Trace) -> float:
    """How long a step takes, busy or idle, on all devices together; or the recording."""
    devices = sum(len(busy.start) > 0 for busy in trace.gpu.covered)
    if not trace.order.steps:
        return float(trace.idle.window_ns)
    spans = [span for span in trace.spans.steps if len(span.work)]
    return devices * float(np.median([np.ptp(trace.spans.window(span)) for span in spans]))


def saving_is_there(finding: Finding, step: float) -> None:
    """No saving exceeds what it is taken from."""
    saving = finding.at_most_ns
    if saving is None:
        return
    assert 0 < saving <= step, finding
    if finding.rule in FROM_KERNELS:
        assert saving <= finding.evidence["ns"], finding
    assert (finding.saves_ns or 0) <= saving, finding


def advice_is_not_followed_yet(trace: ft.Trace, found: list[Finding]) -> None:
    """No finding advises what the program does."""
    names = trace.host.names
    fixes = {finding.rule: finding.fix for finding in found}
    by_graphs = trace.gpu.length[graph_rows(trace)].sum() > trace.gpu.length.sum() / 2
    assert not (by_graphs and "CUDA graph" in str(fixes))
    kernels = {names[name] for name in trace.host.name[trace.gpu.id[optimizer_rows(trace)]]}
    fused = any(re.search(FUSED, name) for name in kernels)
    assert not (fused and "unfused_optimizer" in fixes)
    assert "pageable_copies" not in fixes or any("Pageable" in name for name in names)
    compiled = any(name.startswith("Torch-Compiled Region") for name in names)
    assert not (compiled and fixes.get("metadata_only"))


def gaps_are_idle(trace: ft.Trace, finding: Finding) -> None:
    """No work runs in the gaps that a finding lists, the longest first."""
    gpu, lengths = trace.gpu, [end - start for start, end, _ in finding.ranges]
    assert not lengths or finding.rule in IDLE
    assert lengths == sorted(lengths, reverse=True)
    for start, end, device in finding.ranges:
        mine = gpu.usable & (gpu.device_number == device)
        assert start < end
        assert not (mine & (gpu.start < end) & (gpu.end > start)).any()
    if finding.rule == "idle_gaps" and finding.state == "found" and len(lengths) < RANGES:
        assert sum(lengths) == finding.evidence["idle_ns"]
        assert lengths[0] >= finding.evidence["longest_ns"]
