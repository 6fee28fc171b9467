"""What a fusion saves, at the roof that holds its intermediates."""

from __future__ import annotations

from pathlib import Path

import foretrace as ft
from foretrace.analyze.compare import compare
from foretrace.read import recordings

RECORDED = Path(__file__).parents[2] / "recorded"


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
