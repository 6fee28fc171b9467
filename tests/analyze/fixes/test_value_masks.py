"""One mask for each value of a tensor, on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.test_on_cpu import found, matmul
from analyze.rules.sketch import Sketch

ORDER = "group by value in one op (index_add_, scatter_reduce, bincount)"
WHY = "masks per step (x == 0, x == 1, ...), each of 2,400 elements"


def neighbours(sketch: Sketch, nodes: int = 32, stride: int = 1, then: str = "index") -> None:
    matmul(sketch, us=200)
    for node in range(nodes):
        types, value = ["long int", "Scalar"], ["", str(stride * node)]
        sketch.op("aten::eq", us=20, dims=[[2400], []], types=types, concrete=value)
        sketch.op(f"aten::{then}", us=20, dims=[[2400], []], types=["long int", ""])
        sketch.op("aten::mean", us=20, dims=[[3 + node % 5, 64]], types=["float"])
    sketch.op("aten::stack", us=20)


def test_a_mask_for_each_node(tmp_path: Path) -> None:
    (fix,) = found(neighbours, tmp_path)
    assert (fix.proposal.order, fix.proposal.why) == (ORDER, f"32 {WHY}")
    loop = 31 * 60_000
    assert fix.proposal.change.removed[0][1] - fix.proposal.change.removed[0][0] == 20_000
    assert fix.ns < 200_000 + 0.4 * loop


def test_two_layers_are_two_loops(tmp_path: Path) -> None:
    (fix,) = found(lambda sketch: [neighbours(sketch), neighbours(sketch)], tmp_path)
    assert fix.proposal.why == f"64 {WHY}"


@pytest.mark.parametrize(
    ("nodes", "stride", "then"),
    [
        (15, 1, "index"),
        (32, 0, "index"),  # one value, as for padding in each layer
        (32, 1, "sum"),  # counts, without rows
    ],
)
def test_other_comparisons_stay(nodes: int, stride: int, then: str, tmp_path: Path) -> None:
    assert found(lambda sketch: neighbours(sketch, nodes, stride, then), tmp_path) == []
