"""Products of all rows with all rows that are summed, and products that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.test_on_cpu import Build, found
from analyze.rules.sketch import Sketch

WIDE = [384, 384, 64]
EXPANDED = [[WIDE, WIDE], [[64, 0, 1], [0, 64, 1]]]
BROADCAST = [[[384, 1, 64], [1, 384, 64]], [[64, 64, 1], [24_576, 64, 1]]]
ONE_ROW = [[WIDE, [64]], [[24_576, 64, 1], [1]]]  # a weight of each feature
DENSE = [[WIDE, WIDE], [[24_576, 64, 1]] * 2]
SCALED = [[WIDE, [384, 384, 1]], [[24_576, 64, 1], [384, 1, 1]]]  # a weight of each row


def _pair(shapes: list[list[list[int]]], over: str = "[-1]", then: str = "") -> Build:
    def draw(sketch: Sketch) -> None:
        dims, strides = shapes
        kinds = ["float", "float"]
        sketch.op("aten::mul", us=3_000, dims=dims, types=kinds, strides=strides)
        places = ["", over, "False", ""]
        kinds = ["float", "ScalarList", "Scalar", ""]
        sketch.op("aten::sum", us=1_000, dims=[WIDE, [], [], []], types=kinds, concrete=places)
        if then:
            sketch.op(then, us=500, dims=[WIDE], types=["float"])

    return draw


@pytest.mark.parametrize("shapes", [EXPANDED, BROADCAST])
def test_a_matmul_gives_the_sums(shapes: list[list[list[int]]], tmp_path: Path) -> None:
    (fix,) = found(_pair(shapes), tmp_path)
    assert (fix.proposal.order, fix.proposal.why) == (
        "a matmul instead of mul and sum: a @ b.T or torch.einsum",
        "1 product of shape [384, 384, 64] per step, summed right after",
    )
    assert fix.ns == pytest.approx(400_000, rel=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        _pair(ONE_ROW),
        _pair(DENSE),
        _pair(SCALED),
        _pair(EXPANDED, "[0]"),  # the second factor repeats what is summed
        _pair(EXPANDED, "[0, 1]"),
        _pair(EXPANDED, then="aten::exp"),
    ],
)
def test_other_products_stay(draw: Build, tmp_path: Path) -> None:
    assert [fix for fix in found(draw, tmp_path) if "matmul" in fix.proposal.order] == []
