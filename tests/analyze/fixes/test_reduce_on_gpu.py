from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import COPY, GEMM, Sketch, kernel, memcpy

SHAPE = [2048, 32_000]
HELD = ["float", "float"]


def logits(sketch: Sketch, copied_us: float = 20_000) -> None:
    sketch.op("aten::mm", kernel(GEMM, 200), dims=[[2048, 1024], [1024, 32_000]])
    types = ["float", "c10::BFloat16"]
    path = "aten::to > aten::_to_copy > aten::copy_"
    sketch.op(path, kernel(COPY, 190), dims=[SHAPE, SHAPE], types=types)
    down = memcpy("Memcpy DtoH (Device -> Pageable)", copied_us, 4 * 2048 * 32_000)
    sketch.op(path, down, dims=[SHAPE, SHAPE], types=HELD).sync("cudaStreamSynchronize")


def on_the_cpu(sketch: Sketch) -> None:
    logits(sketch)
    sketch.op("aten::argmax", us=30_000, dims=[SHAPE, []], types=["float", "Scalar"])


def on_the_gpu(sketch: Sketch) -> None:
    logits(sketch)
    sketch.op("aten::argmax", kernel("argmax", 50), dims=[SHAPE, []], types=["float", "Scalar"])


def of_another(sketch: Sketch) -> None:
    logits(sketch)
    sketch.op("aten::argmax", us=30_000, dims=[[64, 10], []], types=["float", "Scalar"])


def test_a_reduction_moves_to_the_gpu_with_the_cast_before_it(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(on_the_cpu)
    assert found.order == "call argmax() on the GPU, before .cpu()"
    assert len(found.change.gone) == 1  # the cast
    assert now > 50_000
    assert then < 1_500


def there_and_back(sketch: Sketch) -> None:
    logits(sketch)
    sketch.op("aten::sort", us=30_000, dims=[SHAPE, []], types=["float", "Scalar"])
    up = memcpy("Memcpy HtoD (Pageable -> Device)", 20_000, 4 * 2048 * 32_000)
    sketch.op("aten::to > aten::copy_", up, dims=[SHAPE, SHAPE], types=HELD).sync()


def test_an_op_between_two_copies_needs_neither(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(there_and_back)
    assert found.order == "call sort() on the GPU, without .cpu()"
    assert len(found.change.gone) == 2  # the cast, and the copy back


def test_other_ops_stay(fix: FixUnderTest) -> None:
    fix.stays(on_the_gpu, of_another, logits)
