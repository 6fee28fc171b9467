"""The first screen of a serving trace: tokens per second, prefill and decode, the floor."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace as ft
from corpus.builder import TraceBuilder
from foretrace.show.overview import summarize
from foretrace.show.overview.serving import serving_rows
from model.test_serving import _trace
from model.test_utilization import H200
from opened_traces import opened
from statements.places import OWN


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


def test_the_floor_of_a_matmul_is_its_flop_at_the_peak(tmp_path: Path) -> None:
    decode, _ = serving_rows(_trace(tmp_path))
    assert decode.floor_by == "compute"
    assert decode.floor_ns == pytest.approx(2 * 4096**3 / 989.4e12 * 1e9, rel=1e-3)


def test_the_first_screen_says_it(tmp_path: Path) -> None:
    lines = {line.label: line.text for line in summarize(_trace(tmp_path)).lines}
    assert lines["DECODE"].startswith("32 requests, mean context 1,025: 32 tokens in ")
    assert " tokens/s" in lines["DECODE"]
    assert "x its floor of 139 us (its FLOP at the peak)" in lines["DECODE"]
    assert lines["PREFILL"].startswith("2 requests: 600 tokens in ")


def test_the_floor_reads_the_cache_not_its_copies() -> None:
    """A decode that repeats 4 key heads for 12 query heads: the cache has only the 4."""
    look = summarize(opened(OWN / "graph_eager.json.gz")).look
    weights = 2 * (8 * (2 * 768 * 768 + 2 * 768 * 256 + 3 * 768 * 3072) + 768 * 32000)
    floors = {row.requests: row.floor_ns or 0 for row in look.serving}
    assert sorted(floors) == [1, 8, 32]
    for requests, floor in floors.items():
        # the inputs and outputs of matmuls are the rest
        cache = 8 * 2 * requests * 4 * 512 * 64 * 2
        assert floor == pytest.approx((weights + cache) / 4.8e12 * 1e9, rel=0.04)


def test_every_kind_of_batch_in_words() -> None:
    lines = summarize(opened(OWN / "graph_eager.json.gz")).lines
    decode = [line.text for line in lines if line.label == "DECODE"]
    assert len(decode) == 3
    assert any(text.startswith("1 request: 1 token in ") for text in decode)
    assert not any(".09x its floor" in text for text in decode)
    assert not any("this floor" in line.text for line in lines)  # one floor on the screen


def test_a_floor_without_attention_does_not_speak_for_the_cache(tmp_path: Path) -> None:
    sizes = {"dims": [[32, 4096], [4096, 4096]], "types": ["c10::BFloat16"] * 2}
    builder = TraceBuilder(header=H200).region("decode bs=32", 0, 400_000)
    builder.op("aten::mm", 1_000, 5_000, **sizes).launch(2_000, 500)
    builder.kernel("nvjet_sm90_tst_64x32_64x16_1x4_h_bz_TNT", 9_000, 20_000)
    (tmp_path / "trace.json").write_bytes(builder.bytes())
    (row,) = serving_rows(ft.open(tmp_path / "trace.json", cache=False))
    assert row.floor_by == "weights"
