from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposals, proposed
from analyze.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made


def metrics(sketch: Sketch, us: float = 4_000) -> None:
    sketch.op("aten::mm", kernel(GEMM, 500), us=600)
    sketch.op("aten::relu", kernel(GEMM, 10)).pause(us)


def test_python_between_steps(tmp_path: Path) -> None:
    (found,) = proposed("python_time", metrics, tmp_path)
    assert found.why == "no op runs in 86.8% of the step (1 stretch)"
    now, then = after_us("python_time", metrics, tmp_path)
    assert now > 4_500
    assert then < 700


def test_short_pauses_and_single_ones_stay(tmp_path: Path) -> None:
    assert proposed("python_time", lambda sketch: metrics(sketch, 300), tmp_path) == []
    once = Sketch()
    for us in (0, 4_000, 0, 0):
        metrics(once.step(), us)
    assert proposals("python_time", open_made(once, tmp_path)) == []
