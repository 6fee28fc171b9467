"""A large embedding of which a step reads few rows."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"


def _backward(rows: int, tied: bool = False) -> Draw:
    def draw(sketch: Sketch) -> None:
        fill = "aten::embedding_dense_backward > aten::zero_ > aten::fill_"
        sketch.op(fill, kernel(FILL, 200), dims=[[1_000_000, 128], []], types=["float", "Scalar"])
        outer = next(each for each in sketch.events if "dense_backward" in each["name"])
        outer["args"] = {
            "Input Dims": [[rows, 128], [rows], [], [], []],
            "Input type": ["float", "long int", "Scalar", "Scalar", "Scalar"],
            "Concrete Inputs": ["", "", "1000000", "-1", "False"],
        }
        if tied:
            dims = [[1_000_000, rows], [rows, 128]]
            sketch.op("aten::mm", kernel(GEMM, 20_000), dims=dims, types=["float", "float"])

    return draw


def test_the_fill_shrinks(fix: FixUnderTest) -> None:
    (found,) = fix.once(_backward(4096))
    assert "512.0 MB" in found.why
    (ns,) = found.change.length.values()
    assert ns < 10_000


@pytest.mark.parametrize("draw", [_backward(400_000), _backward(4096, tied=True)])
def test_a_gradient_that_is_dense_anyway_stays(draw: Draw, fix: FixUnderTest) -> None:
    assert not fix.once(draw)
