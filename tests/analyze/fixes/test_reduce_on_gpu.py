from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.proposing import after_us, proposed
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


def test_a_reduction_moves_to_the_gpu_with_the_cast_before_it(tmp_path: Path) -> None:
    (found,) = proposed("reduce_on_gpu", on_the_cpu, tmp_path)
    assert found.order == "argmax on the GPU, then copy its result (x.argmax(...).cpu())"
    assert len(found.change.gone) == 1  # the cast
    now, then = after_us("reduce_on_gpu", on_the_cpu, tmp_path)
    assert now > 50_000
    assert then < 1_500


@pytest.mark.parametrize("build", [on_the_gpu, of_another, logits])
def test_other_ops_stay(build: object, tmp_path: Path) -> None:
    assert callable(build)
    assert proposed("reduce_on_gpu", build, tmp_path) == []
