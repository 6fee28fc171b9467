"""Sentences about what a fusion saves at its roof, and about kernels that a size changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretrace
import foretrace as ft
from foretrace.compare import compare
from foretrace.read import recordings
from foretrace.work.gemms import table
from foretrace.work.gemms.documents import MatmulSize
from look.rules.sketch import Sketch, kernel

RECORDED = Path(__file__).parents[1] / "recorded"


def _fusing(a: Path, b: Path) -> list[str]:
    found = compare(ft.open(a, cache=False), ft.open(b, cache=False))
    return [line for line in found.changed if line.startswith("Fusing")]


def test_intermediates_that_exceed_l2_come_from_hbm() -> None:
    """gelu moves 101 MB and mul 151 MB: the counters of an H200 read 99 of 101 MB from DRAM."""
    traces = recordings.traces()
    assert _fusing(traces["mlp_eager"], traces["mlp_compiled"]) == [
        "Fusing gelu and mul avoids at most 100.7 MB of memory traffic, 21.4 us at the HBM roof."
    ]


def test_intermediates_that_fit_in_l2_cost_less() -> None:
    """12 pairs of gelu and mul, which the recording shows to be 25 us faster in one kernel."""
    lines = _fusing(RECORDED / "gemma_eager.json.gz", RECORDED / "gemma_compiled.json.gz")
    assert (
        "Fusing gelu and mul avoids at most 302.0 MB of memory traffic. A kernel moves at most 37.7 MB, "
        "which fits in L2: 33.8 us at its roof, not the 64.1 us of HBM."
    ) in lines


def test_what_is_fused_no_longer_was_avoided_before() -> None:
    traces = recordings.traces()
    (line,) = _fusing(traces["mlp_compiled"], traces["mlp_eager"])
    assert line.startswith("Fusing gelu and mul avoided at most 100.7 MB")


MAP = table.shipped()
N, K = 4096, 14336


def _name(m: int) -> str:
    found: str = MAP.frame["kernel"][MAP.rows[MatmulSize(m, N, K)]]
    return found


def _trace(folder: Path, m: int, *, name: str = "", device: str = "NVIDIA H200") -> foretrace.Trace:
    sketch = Sketch(device)
    for _ in range(3):
        work = kernel(name or _name(m), 30, grid=[2, 64, 1])
        sketch = sketch.step().op("aten::linear > aten::mm", work, dims=[[m, K], [K, N]])
    path = folder / f"{m}-{len(name)}-{device[-4:]}.json"
    path.write_text(json.dumps(sketch.document()))
    return foretrace.open(str(path), cache=False)


def _crossings(a: foretrace.Trace, b: foretrace.Trace) -> list[str]:
    return [line for line in foretrace.compare(a, b).changed if "map of the" in line]


def test_the_boundary_is_named(tmp_path: Path) -> None:
    (said,) = _crossings(_trace(tmp_path, 1), _trace(tmp_path, 16))
    assert "because M went from 1 to 16" in said
    assert "for N = 4096, K = 14336 the map of the NVIDIA H200" in said
    assert said.endswith("changes it between M = 8 and M = 9.")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"m": 1}, {"m": 8}),  # the same kernel
        ({"m": 1}, {"m": 16, "name": "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"}),  # not the map's
        ({"m": 1, "device": "NVIDIA H100"}, {"m": 16, "device": "NVIDIA H100"}),
        ({"m": 1}, {"m": 16, "device": "NVIDIA H100"}),
    ],
)
def test_nothing_is_said_that_the_map_does_not_show(
    a: dict[str, int], b: dict[str, int], tmp_path: Path
) -> None:
    assert _crossings(_trace(tmp_path, **a), _trace(tmp_path, **b)) == []  # type: ignore[arg-type]
