"""Forward passes of a training step that no backward pass uses, on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.test_on_cpu import found
from analyze.rules.sketch import Sketch

LAYERS = ("conv2d", "linear")


def forward(sketch: Sketch, number: int, layers: tuple[str, ...] = LAYERS, rows: int = 8) -> None:
    for at, layer in enumerate(layers):
        types = ["float", "float"]
        sketch.op(f"aten::{layer}", us=200, dims=[[rows, 16], [16, 16]], types=types)
        sketch.events[-1]["args"]["Sequence number"] = number + at if number else 0


def backward(sketch: Sketch, number: int) -> None:
    for at, name in reversed([*enumerate(("ConvolutionBackward0", "AddmmBackward0"))]):
        sketch.op(f"{name} > aten::mm", us=200, dims=[[8, 16], [16, 16]], types=["float"] * 2)
        sketch.events[-2]["args"] = {"Sequence number": number + at, "Fwd thread id": 1}


def test_a_pass_for_each_metric(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        first = 100 * sketch.steps
        forward(sketch, first)
        backward(sketch, first)
        forward(sketch, first + 10)
        forward(sketch, first + 20)

    (fix,) = found(step, tmp_path)
    assert (fix.proposal.order, fix.proposal.why) == (
        "reuse the outputs of the training pass, or run this under torch.no_grad()",
        "2 more forward passes per step that no backward pass uses",
    )
    assert len(fix.proposal.events) == 4
    assert fix.low_ns < 0.6 * fix.high_ns


@pytest.mark.parametrize(
    ("number", "layers", "rows"),
    [
        (0, LAYERS, 8),  # without nodes
        (10, LAYERS[:1], 8),  # a part of the model
        (10, LAYERS, 64),  # another batch, as for validation
    ],
)
def test_what_is_no_second_training_pass(
    number: int, layers: tuple[str, ...], rows: int, tmp_path: Path
) -> None:
    def step(sketch: Sketch) -> None:
        first = 100 * sketch.steps
        forward(sketch, first)
        backward(sketch, first)
        forward(sketch, number and first + number, layers, rows)

    assert found(step, tmp_path) == []


def test_parts_of_a_batch_are_all_used(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        for part in range(2):
            forward(sketch, 100 * sketch.steps + 10 * part)
            backward(sketch, 100 * sketch.steps + 10 * part)

    assert found(step, tmp_path) == []
