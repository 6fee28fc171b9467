"""Attention on float32 tensors, and on bf16."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import Sketch, kernel

PATH = "aten::scaled_dot_product_attention > aten::_efficient_attention_forward"


def _attention(name: str, kind: str) -> Draw:
    dims = [[8, 2048, 16, 64]] * 3
    return lambda sketch: sketch.op(PATH, kernel(name, 4000), dims=dims, types=[kind] * 3)


def test_float32_attention_in_bf16(fix: FixUnderTest) -> None:
    draw = _attention("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "float")
    (found,) = fix.once(draw)
    assert times_us(found) == pytest.approx([388], abs=5)  # 137 GFLOP at 36% of 989 TFLOP/s
    assert found.worst is not None
    assert max(found.worst.length.values()) > max(found.change.length.values())


def test_bf16_attention_stays(fix: FixUnderTest) -> None:
    draw = _attention("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "c10::BFloat16")
    assert not fix.once(draw)
    assert not fix.once(lambda sketch: Sketch.pause(sketch, 10))
