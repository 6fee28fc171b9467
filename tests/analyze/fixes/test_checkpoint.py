"""Ops of the forward pass that run again below a backward node."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel

NODE = "autograd::engine::evaluate_function: AddmmBackward0"


def _training(sketch: Sketch, again: bool) -> None:
    dims = [[8192, 1024], [1024, 4096]]
    sketch.op("aten::linear > aten::mm", kernel(GEMM, 90), dims=dims)
    if again:
        sketch.op(f"{NODE} > aten::linear > aten::mm", kernel(GEMM, 90), dims=dims)
    sketch.op(f"{NODE} > aten::mm", kernel(GEMM, 90), dims=dims)
    for event in sketch.events:
        if event["name"] == NODE:
            event.setdefault("args", {}).update({"Sequence number": 7, "Fwd thread id": 1})
        elif event["name"] == "aten::linear":
            event.setdefault("args", {})["Sequence number"] = 7


def test_what_is_recomputed_is_gone(fix: FixUnderTest) -> None:
    (found,) = fix.once(lambda sketch: _training(sketch, True))
    assert len(found.change.gone) == 1
    assert "67.1 MB more" in found.risk
    (stretch,) = found.change.removed
    assert stretch[1] - stretch[0] == pytest.approx(9_800)


def test_a_plain_backward_pass_stays(fix: FixUnderTest) -> None:
    assert not fix.once(lambda sketch: _training(sketch, False))
