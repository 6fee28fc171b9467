"""Softmax over a dimension with strides, and over the last one."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import kernel

SPATIAL = "void at::native::(anonymous namespace)::cunn_SpatialSoftMaxForward<float, float, float, int, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int, int, int)"


def _softmax(us: float, strides: list[int]) -> Draw:
    return lambda sketch: sketch.op(
        "aten::_softmax",
        kernel(SPATIAL, us),
        dims=[[8192, 4096], [], []],
        types=["float", "Scalar", "Scalar"],
        strides=[strides, [], []],
        concrete=["", "0", "False"],
    )


@pytest.mark.parametrize(
    ("strides", "order", "us"),
    [
        ([1, 8192], "take softmax over the last dimension, then transpose", 138),
        ([4096, 1], "transpose, then softmax over the last dimension", 571),
    ],
)
def test_a_slow_softmax(strides: list[int], order: str, us: float, fix: FixUnderTest) -> None:
    (found,) = fix.once(_softmax(9000, strides))
    assert found.order == order
    assert times_us(found) == pytest.approx([us], rel=0.05)


def test_a_spatial_softmax_that_is_fast_stays(fix: FixUnderTest) -> None:
    assert not fix.once(_softmax(150, [4096, 1]))
