"""Copies, slices and optimizers of a step that a CPU computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.test_loops_on_cpu import FLOAT, said
from analyze.fixes.test_on_cpu import found, matmul
from analyze.rules.sketch import Sketch


@pytest.mark.parametrize("grows", [True, False])
def test_a_tensor_that_cat_grows(grows: bool, tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        for at in range(1, 11):
            dims = [[[at * 16 if grows else 16, 256], [16, 256]], []]
            types, strides = ["TensorList", "Scalar"], [[[256, 1], [256, 1]], []]
            sketch.op("aten::cat", us=100 * at, dims=dims, types=types, strides=strides)

    fixes = found(step, tmp_path)
    order = "append the parts to a list, and torch.cat(parts) once"
    why = "10 torch.cat per step, and each copies what the one before it made"
    assert said(fixes) == ([(order, why)] if grows else [])
    if grows:  # the last of 100 to 1,000 us remains
        assert fixes[0].ns == pytest.approx(1_000_000, rel=0.02)


def rows(sketch: Sketch, us: float = 10) -> None:
    for at in range(40):
        places = ["", "0", str(at)]
        sketch.op("aten::select", us=5, dims=[[40, 64], [], []], types=FLOAT, concrete=places)
        sketch.op("aten::softmax", us=us, dims=[[64]], types=FLOAT)
    sketch.op("aten::stack", us=20)


def test_rows_one_by_one(tmp_path: Path) -> None:
    (fix,) = found(rows, tmp_path)
    assert said([fix]) == [
        (
            "run all slices in one call, along a batch dimension",
            "the same 2 ops run 40 times per step, on one slice each",
        )
    ]
    assert fix.proposal.risk == "holds where no iteration needs the result of another"
    assert found(lambda sketch: rows(sketch, us=500), tmp_path) == []  # work, not overhead


def test_one_hot_rows(tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        sketch.op("aten::one_hot", us=500, dims=[[256], []], types=["long int", "Scalar"])
        sketch.op("aten::to", us=500, dims=[[256, 8000]], types=["long int"])
        dims, types = [[256, 8000], [8000, 128]], ["float", "float"]
        sketch.op("aten::matmul", us=2_000, dims=dims, types=types)

    assert said(found(step, tmp_path)) == [
        (
            "index the table: F.embedding(index, table)",
            "1 matmul per step with one-hot rows of 8000 columns",
        )
    ]


@pytest.mark.parametrize(
    ("name", "ops", "order"),
    [
        ("AdamW", "lerp_ mul_ addcdiv_", "torch.optim.AdamW(..., fused=True)"),
        ("AdamW", "_fused_adamw_ add_ add_", ""),
        ("SGD", "add_", ""),  # one pass already
        ("LBFGS", "lerp_ mul_ addcdiv_", ""),
    ],
)
def test_optimizers_that_visit_each_parameter(
    name: str, ops: str, order: str, tmp_path: Path
) -> None:
    def step(sketch: Sketch) -> None:
        matmul(sketch, us=200)
        for _ in range(4):
            sketch.op("torch::autograd::AccumulateGrad", us=2)
        sketch.region(f"Optimizer.step#{name}.step")
        for op in ops.split() * 4:
            sketch.op(f"aten::{op}", us=20, dims=[[64, 64]], types=FLOAT)

    fixes = said(found(step, tmp_path))
    why = f"{name} runs 12 ops per step, some for each parameter"
    assert fixes == ([(order, why)] if order else [])
