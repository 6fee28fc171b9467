from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest, stepping
from analyze.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made


def layers(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 60), us=50).sync()


def plain(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 60), us=50)


def test_waits_of_the_program_go(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(layers)
    assert found.order == "delete torch.cuda.synchronize() from the step"
    assert found.why == "4 calls of cudaDeviceSynchronize per step"
    assert now > 350
    assert then < 250


def test_waits_of_ops_and_of_the_profiler_stay(fix: FixUnderTest) -> None:
    def read(sketch: Sketch) -> None:
        sketch.op("aten::mm", kernel(GEMM, 60)).sync("cudaStreamSynchronize", inside="aten::item")

    fix.stays(read, plain)
    assert fix.found(open_made(stepping(plain).sync(), fix.folder))[1] == []
