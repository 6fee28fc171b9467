"""Odd sizes of matmuls, and multiples of 8."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import GEMM, kernel

NARROW = "cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1"


def _matmul(width: int, name: str) -> Draw:
    dims = [[8192, width], [width, width]]
    return lambda sketch: sketch.op("aten::mm", kernel(name, 120), dims=dims)


def test_a_width_of_1021(fix: FixUnderTest) -> None:
    draw = _matmul(1021, f"void cutlass::Kernel2<{NARROW}>({NARROW}::Params)")
    (found,) = fix.once(draw)
    assert found.order == "pad 1021 to 1024, a multiple of 64"
    assert times_us(found) == pytest.approx([25], abs=1)


def test_a_small_size_is_padded_to_8(fix: FixUnderTest) -> None:
    draw = _matmul(101, f"void cutlass::Kernel2<{NARROW}>({NARROW}::Params)")
    (found,) = fix.once(draw)
    assert found.order == "pad 101 to 104, a multiple of 8"


def test_a_multiple_of_8_stays(fix: FixUnderTest) -> None:
    assert not fix.once(_matmul(1024, GEMM))
