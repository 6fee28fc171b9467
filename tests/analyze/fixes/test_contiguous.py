from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import COPY, Sketch, kernel

HEADS = [8, 16, 512, 64]
STRIDED = [524_288, 64, 1024, 1]
ATTENTION = "aten::scaled_dot_product_attention"


def copied(sketch: Sketch, strides: list[int], then: str) -> None:
    # the sketch gives shapes to the innermost op alone: contiguous has its own here
    sketch.op("aten::contiguous", kernel(COPY, 30), dims=[HEADS], strides=[strides])
    sketch.op(then, kernel("flash", 100), dims=[HEADS, HEADS, HEADS])


def test_attention_takes_strides(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: copied(sketch, STRIDED, ATTENTION))
    assert "scaled_dot_product_attention" in found.order
    assert len(found.change.gone) == 1


@pytest.mark.parametrize(
    ("strides", "then"),
    [
        ([524_288, 64, 1, 1024], ATTENTION),  # the last dimension is not dense
        (STRIDED, "aten::matmul"),  # a matmul of four dimensions copies itself
        (STRIDED, "aten::view"),
    ],
)
def test_other_copies_stay(strides: list[int], then: str, fix: FixUnderTest) -> None:
    fix.stays(lambda made: copied(made, strides, then))
