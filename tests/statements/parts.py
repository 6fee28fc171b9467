"""What holds of the costs and groups of every trace; `test_everywhere` opens each trace once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import foretrace as ft
from foretrace.model import groups
from foretrace.model.about import device_of
from foretrace.model.utilization import utilization
from foretrace.show.overview.groups import group_rows
from foretrace.show.overview.page import folded
from foretrace.show.overview.sequences import sequences


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
    found = groups.found(trace)
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
