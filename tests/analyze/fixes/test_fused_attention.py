"""Attention written out, and attention in one kernel."""

from __future__ import annotations

from pathlib import Path

from analyze.fixes.sketched import found_in
from opened_traces import recording

SHAPE = "8x16x1024x64"


def test_written_attention_becomes_one_kernel() -> None:
    (found,) = found_in("fused_attention", recording(f"attention_naive_{SHAPE}"))
    assert found.order == "call F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    (ns,) = found.change.length.values()
    assert 40_000 < ns < 80_000  # cuDNN's kernel takes 57 us
    assert len(found.change.gone) == 6


def test_the_math_path_becomes_one_kernel() -> None:
    (found,) = found_in("fused_attention", recording(f"attention_math_{SHAPE}"))
    assert "math path" in found.why
    (ns,) = found.change.length.values()
    assert 40_000 < ns < 80_000


def test_fused_attention_stays(tmp_path: Path) -> None:
    assert not found_in("fused_attention", recording(f"attention_flash_{SHAPE}"))
