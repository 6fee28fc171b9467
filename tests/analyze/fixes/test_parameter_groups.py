from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import ADD, Sketch, kernel

COUNT = 40


def updated(sketch: Sketch, groups: int) -> None:
    for _ in range(COUNT):
        sketch.op("torch::autograd::AccumulateGrad", us=5)
    sketch.region("Optimizer.step#AdamW.step")
    for _ in range(groups):
        sketch.op("aten::_foreach_add_", kernel(ADD, 2), us=40)
        sketch.op("aten::_fused_adamw_", kernel(ADD, 3), us=40)


def test_a_group_for_each_parameter_becomes_two(tmp_path: Path) -> None:
    def each(sketch: Sketch) -> None:
        updated(sketch, COUNT)

    (found,) = proposed("parameter_groups", each, tmp_path)
    assert found.order == "give AdamW two parameter groups: decay and no decay"
    assert found.why == "optimizer.step() runs 40 groups for 40 parameters"
    assert len(found.change.length) == 4
    now, then = after_us("parameter_groups", each, tmp_path)
    assert then < 0.5 * now


def test_few_groups_stay(tmp_path: Path) -> None:
    assert not proposed("parameter_groups", lambda sketch: updated(sketch, 8), tmp_path)
