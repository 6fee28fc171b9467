from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, Sketch, kernel

COUNT = 40


def updated(sketch: Sketch, groups: int) -> None:
    for _ in range(COUNT):
        sketch.op("torch::autograd::AccumulateGrad", us=5)
    sketch.region("Optimizer.step#AdamW.step")
    for _ in range(groups):
        sketch.op("aten::_foreach_add_", kernel(ADD, 2), us=40)
        sketch.op("aten::_fused_adamw_", kernel(ADD, 3), us=40)


def test_a_group_for_each_parameter_becomes_two(fix: FixUnderTest) -> None:
    def each(sketch: Sketch) -> None:
        updated(sketch, COUNT)

    found, now, then = fix.goes(each)
    assert found.order == "give AdamW two parameter groups: decay and no decay"
    assert found.why == "optimizer.step() runs 40 groups for 40 parameters"
    assert len(found.change.length) == 4
    assert then < 0.5 * now


def test_few_groups_stay(fix: FixUnderTest) -> None:
    fix.stays(lambda sketch: updated(sketch, 8))
