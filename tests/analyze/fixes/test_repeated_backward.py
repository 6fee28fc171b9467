from __future__ import annotations

from typing import Any

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel
from foretrace.model.autograd import ENGINE

LAYERS = 6


def told(sketch: Sketch, **args: Any) -> None:
    """Gives the last op what the profiler writes beside it."""
    sketch.events[-3].setdefault("args", {}).update(args)


def forward(sketch: Sketch) -> int:
    first = len(sketch.events)
    for layer in range(LAYERS):
        sketch.op("aten::mm", kernel(GEMM, 50))
        told(sketch, **{"Sequence number": first + layer, "Fwd thread id": 0})
    return first


def backward(sketch: Sketch, first: int, gradients: bool = True) -> None:
    for layer in reversed(range(LAYERS)):
        sketch.op(ENGINE + "MmBackward0", kernel(GEMM, 100))
        told(sketch, **{"Sequence number": first + layer, "Fwd thread id": 1})
        if gradients:
            sketch.op(ENGINE + "torch::autograd::AccumulateGrad", us=5)


def twice(sketch: Sketch) -> None:
    first = forward(sketch)
    backward(sketch, first)
    backward(sketch, first)


def accumulated(sketch: Sketch) -> None:
    for _ in range(2):
        backward(sketch, forward(sketch))


def gradients_apart(sketch: Sketch) -> None:
    """`torch.autograd.grad` for each loss: the program wants them one by one."""
    first = forward(sketch)
    backward(sketch, first, gradients=False)
    backward(sketch, first, gradients=False)


def test_one_pass_of_the_sum_is_enough(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(twice)
    assert found.why == "2 backward passes per step run 12 nodes again"
    assert len(found.change.gone) == LAYERS
    assert now - then > 0.9 * LAYERS * 100


def test_passes_of_other_graphs_stay(fix: FixUnderTest) -> None:
    fix.stays(accumulated, gradients_apart)
