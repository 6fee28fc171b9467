from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.fixes.waiting import DOWN, waits
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel, memcpy

ITEM = "aten::item > aten::_local_scalar_dense"


def training(sketch: Sketch, *reads: str) -> None:
    sketch.op("aten::mm", kernel(GEMM, 300), us=200)
    for path in reads:
        waits(sketch, path, DOWN)


def test_a_read_goes_with_its_wait(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: training(sketch, ITEM, ITEM))
    assert found.why == "2 waits per step for .item()"
    _, now, then = fix.goes(lambda sketch: training(sketch, ITEM))
    assert now > 380
    assert then < 310


def test_other_causes_are_left_out(fix: FixUnderTest) -> None:
    def scaler(sketch: Sketch) -> None:
        sketch.op("aten::_amp_foreach_non_finite_check_and_unscale_", kernel(ADD, 5))
        training(sketch, ITEM)

    def large(sketch: Sketch) -> None:
        waits(
            sketch, "aten::to > aten::copy_", memcpy("Memcpy DtoH (Device -> Pageable)", 9, 1 << 20)
        )

    engine = f"autograd::engine::evaluate_function: MmBackward0 > {ITEM}"
    fix.stays(scaler, large, lambda sketch: training(sketch, engine), training)
