"""A table times one-hot rows, and sums by a transposed one-hot factor."""

from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest, times_us
from analyze.rules.sketch import ADD, COPY, GEMM, Sketch, kernel


def _one_hot(sketch: Sketch, left: list[int], right: list[int]) -> Sketch:
    sketch.op(
        "aten::one_hot",
        kernel(COPY, 90),
        dims=[[2048], []],
        types=["long int", "Scalar"],
        concrete=["", "50000"],
    )
    sketch.op("aten::add", kernel(ADD, 3), dims=[[64], [64], []])
    sketch.op("aten::to", kernel(COPY, 300), dims=[[2048, 50000]], types=["long int"])
    return sketch.op("aten::matmul", kernel(GEMM, 170), dims=[left, right])


def test_an_index_instead_of_the_product(fix: FixUnderTest) -> None:
    draw = lambda sketch: _one_hot(sketch, [2048, 50000], [50000, 768])  # noqa: E731
    (found,) = fix.once(draw)
    assert len(found.change.gone) == 2  # the kernel between them stays
    assert times_us(found)[0] < 10


def test_a_transposed_factor_stays(fix: FixUnderTest) -> None:
    draw = lambda sketch: _one_hot(sketch, [50000, 2048], [2048, 768])  # noqa: E731
    assert not fix.once(draw)
