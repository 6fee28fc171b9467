from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposals, proposed, stepping
from analyze.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made


def layers(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 60), us=50).sync()


def plain(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 60), us=50)


def test_waits_of_the_program_go(tmp_path: Path) -> None:
    (found,) = proposed("synchronize", layers, tmp_path)
    assert found.order == "delete torch.cuda.synchronize() from the step"
    assert found.why == "4 calls of cudaDeviceSynchronize per step"
    now, then = after_us("synchronize", layers, tmp_path)
    assert now > 350
    assert then < 250


def test_waits_of_ops_and_of_the_profiler_stay(tmp_path: Path) -> None:
    def read(sketch: Sketch) -> None:
        sketch.op("aten::mm", kernel(GEMM, 60)).sync("cudaStreamSynchronize", inside="aten::item")

    assert proposed("synchronize", read, tmp_path) == []
    assert proposed("synchronize", plain, tmp_path) == []
    assert proposals("synchronize", open_made(stepping(plain).sync(), tmp_path)) == []
