from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel
from foretrace.analyze.fixes.grad_scaler import UNSCALE, UPDATE
from opened_traces import open_made


def scaled(sketch: Sketch) -> None:
    sketch.op("aten::mm", kernel(GEMM, 300))
    sketch.op("aten::reciprocal", kernel(ADD, 2)).pause(200)
    sketch.op(UNSCALE, kernel(ADD, 50))
    sketch.sync("cudaStreamSynchronize", inside="aten::item")
    sketch.op("aten::_fused_adamw_", kernel("fused_adam", 100))
    sketch.op(UPDATE, kernel(ADD, 2))


def plain(sketch: Sketch) -> None:
    sketch.op("aten::mm", kernel(GEMM, 300))
    sketch.sync("cudaStreamSynchronize", inside="aten::item")


def test_the_scaler_goes_with_its_wait(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(scaled)
    assert len(found.change.gone) == 2
    assert len(found.change.unwaited) == 1
    assert now - then > 50


def test_without_a_scaler_or_bfloat16_nothing_goes(fix: FixUnderTest) -> None:
    fix.stays(plain)
    volta = Sketch("Tesla V100-SXM2-16GB", (7, 0), 80)
    for _ in range(3):
        scaled(volta.step())
    assert fix.found(open_made(volta, fix.folder))[1] == []
