from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import GEMM, Sketch, kernel


def small(sketch: Sketch) -> Sketch:
    for _ in range(40):
        sketch.op("aten::mm", kernel(GEMM, 2), us=25, dims=[[64, 64], [64, 64]])
    return sketch


def test_one_launch_brings_all(tmp_path: Path) -> None:
    (found,) = proposed("cuda_graph", small, tmp_path)
    assert found.first == ""
    now, then = after_us("cuda_graph", small, tmp_path)
    assert now > 950
    assert 150 < then < 260


def test_python_and_the_optimizer_keep_their_time(tmp_path: Path) -> None:
    def trained(sketch: Sketch) -> None:
        small(sketch)
        sketch.host("user_annotation", "Optimizer.step#AdamW.step", 700).pause(2_000)

    _, then = after_us("cuda_graph", trained, tmp_path)
    assert 2_800 < then < 3_000


def test_a_wait_goes_first_and_a_graph_stays(tmp_path: Path) -> None:
    (found,) = proposed("cuda_graph", lambda sketch: small(sketch).sync(), tmp_path)
    assert found.first == "1 wait of the host (torch.cuda.synchronize())"
    launched = proposed("cuda_graph", lambda sketch: small(sketch).graph(), tmp_path)
    assert launched == []
