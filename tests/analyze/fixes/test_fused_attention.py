"""Attention written out, and attention in one kernel."""

from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from opened_traces import recording

SHAPE = "8x16x1024x64"


def test_written_attention_becomes_one_kernel(fix: FixUnderTest) -> None:
    (found,) = fix.recorded(recording(f"attention_naive_{SHAPE}"))
    assert found.order == "call F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    (ns,) = found.change.length.values()
    assert 40_000 < ns < 80_000  # cuDNN's kernel takes 57 us
    assert len(found.change.gone) == 6


def test_the_math_path_becomes_one_kernel(fix: FixUnderTest) -> None:
    (found,) = fix.recorded(recording(f"attention_math_{SHAPE}"))
    assert "math path" in found.why
    (ns,) = found.change.length.values()
    assert 40_000 < ns < 80_000


def test_fused_attention_stays(fix: FixUnderTest) -> None:
    assert not fix.recorded(recording(f"attention_flash_{SHAPE}"))
