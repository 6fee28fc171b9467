"""The first screen of a serving trace: tokens per second, prefill and decode, the floor."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.overview import summarize
from foretrace.overview.serving import serving_rows
from model.test_serving import _trace


def test_rows_by_kind(tmp_path: Path) -> None:
    decode, prefill = serving_rows(_trace(tmp_path))
    assert (decode.kind, decode.requests, decode.tokens, decode.context) == (
        "decode",
        32,
        32,
        32785,
    )
    assert (prefill.kind, prefill.requests, prefill.tokens, prefill.context) == (
        "prefill",
        2,
        600,
        None,
    )
    assert decode.tokens_per_s == pytest.approx(32 / decode.time_ns * 1e9)


def test_the_floor_of_a_product_is_its_flop_at_the_peak(tmp_path: Path) -> None:
    decode, _ = serving_rows(_trace(tmp_path))
    assert decode.floor_by == "compute"
    assert decode.floor_ns == pytest.approx(2 * 4096**3 / 989.4e12 * 1e9, rel=1e-3)


def test_the_first_screen_says_it(tmp_path: Path) -> None:
    lines = {line.label: line.text for line in summarize(_trace(tmp_path)).lines}
    assert lines["DECODE"].startswith("32 requests, context 1,025 each: 32 tokens in ")
    assert " tokens/s" in lines["DECODE"]
    assert "x its floor of 139 us (its FLOP at the peak)" in lines["DECODE"]
    assert lines["PREFILL"].startswith("2 requests: 600 tokens in ")
