from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel

COUNT = 48


def averaged(sketch: Sketch, shapes: int = 4, between: bool = False) -> None:
    sketch.op("aten::mm", kernel(GEMM, 50), dims=[[64, 64], [64, 64]])
    for place in range(COUNT):
        size = [64, 64 << place % shapes]
        sketch.op("aten::lerp_", kernel(ADD, 2), us=20, dims=[size, size])
        if between:
            sketch.op("aten::mm", kernel(GEMM, 5), dims=[[64, 64], [64, 64]])


def test_one_call_updates_all_tensors(tmp_path: Path) -> None:
    (found,) = proposed("foreach_loop", averaged, tmp_path)
    assert found.order == "torch._foreach_lerp_ over all tensors, not a loop"
    assert found.why == "48 calls of lerp_ on one tensor each"
    now, then = after_us("foreach_loop", averaged, tmp_path)
    assert now > COUNT * 20
    assert then < 0.4 * now


def test_optimizers_short_runs_and_equal_shapes_stay(tmp_path: Path) -> None:
    def optimizer(sketch: Sketch) -> None:
        averaged(sketch.region("Optimizer.step#SGD.step"))

    assert proposed("foreach_loop", optimizer, tmp_path) == []
    assert proposed("foreach_loop", lambda made: averaged(made, between=True), tmp_path) == []
    assert proposed("foreach_loop", lambda made: averaged(made, shapes=1), tmp_path) == []
