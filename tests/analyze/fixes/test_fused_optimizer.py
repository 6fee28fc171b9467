from __future__ import annotations

import pytest

import foretrace as ft
from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, Sketch, kernel
from foretrace.analyze.fixes import _typical
from foretrace.model.autograd import ENGINE
from foretrace.read import recordings

PASSES = ("aten::_foreach_mul_", "aten::_foreach_add_")


def stepped(sketch: Sketch, name: str, ops: tuple[str, ...] = PASSES) -> None:
    sketch.op("aten::mm", kernel("gemm", 100))
    sketch.region(f"Optimizer.step#{name}.step")
    for at in range(12):
        sketch.op(ops[at % len(ops)], kernel(ADD, 50), us=40)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("AdamW", "torch.optim.AdamW(..., fused=True)"),
        ("SGD", "torch.optim.SGD(..., fused=True)"),
        ("RMSprop", "torch.compile(optimizer.step)"),
    ],
)
def test_one_pass_replaces_many_kernels(name: str, order: str, fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: stepped(sketch, name))
    assert found.order == order
    assert len(found.change.gone) == 11
    assert found.worst is not None
    assert found.worst.left == 1.0  # the host may gain nothing


def test_sparse_gradients_and_strange_optimizers_stay(fix: FixUnderTest) -> None:
    def sparse(sketch: Sketch) -> None:
        stepped(sketch, "SGD", ("aten::coalesce",))

    fix.stays(sparse, lambda made: stepped(made, "Lion"))


def test_a_step_that_runs_the_backward_pass_in_its_closure_stays(fix: FixUnderTest) -> None:
    def closure(sketch: Sketch) -> None:
        sketch.region("Optimizer.step#AdamW.step").op(f"{ENGINE}MmBackward0", kernel("gemm", 50))
        for at in range(12):
            sketch.op(PASSES[at % 2], kernel(ADD, 50), us=40)

    fix.stays(closure)


def test_one_foreach_op_for_all_parameters_is_one_pass(fix: FixUnderTest) -> None:
    assert fix.proposals(lambda made: stepped(made, "SGD", PASSES[1:])) == []


def test_a_recorded_loop_over_parameters_becomes_the_recorded_fused_step(fix: FixUnderTest) -> None:
    shape = "4x512x4x768x12x3072x32000_bf16"
    slow, fused = (
        ft.open(recordings.ladder()[f"train_step_{kind}_{shape}"]) for kind in ("forloop", "fused")
    )
    now = _typical.predicted(slow)
    assert now is not None
    (found,) = [each for each in now.fixes if each.fix == "fused_optimizer"]
    assert found.ns / now.now_ns == pytest.approx(8.18 / 11.8, rel=0.1)  # their run records
    assert fix.found(fused)[1] == []
