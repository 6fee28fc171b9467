from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made


def metrics(sketch: Sketch, us: float = 4_000) -> None:
    sketch.op("aten::mm", kernel(GEMM, 500), us=600)
    sketch.op("aten::relu", kernel(GEMM, 10)).pause(us)


def test_python_between_steps(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(metrics)
    assert found.why == "no op runs in 86.8% of the step (1 stretch)"
    assert now > 4_500
    assert then < 700


def test_short_pauses_and_single_ones_stay(fix: FixUnderTest) -> None:
    fix.stays(lambda sketch: metrics(sketch, 300))
    once = Sketch()
    for us in (0, 4_000, 0, 0):
        metrics(once.step(), us)
    assert fix.found(open_made(once, fix.folder))[1] == []
