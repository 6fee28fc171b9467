from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposals, proposed, stepping
from analyze.rules.sketch import GEMM, Sketch, kernel
from opened_traces import open_made


def worked(sketch: Sketch) -> None:
    sketch.op("aten::mm", kernel(GEMM, 100))


def emptied(sketch: Sketch) -> None:
    sketch.host("cuda_runtime", "cudaMalloc", 300)
    worked(sketch)
    sketch.sync().host("cuda_runtime", "cudaFree", 400)


def retried(sketch: Sketch) -> None:
    sketch.host("cuda_runtime", "cudaMalloc", 300)
    worked(sketch)
    start = sketch.now
    sketch.host("cuda_runtime", "cudaFree", 400)
    sketch._add("cpu_op", "aten::empty", start - 1, 402)
    sketch.now += 2


def test_memory_that_is_given_back_is_kept(tmp_path: Path) -> None:
    (found,) = proposed("allocator", emptied, tmp_path)
    assert found.order == "remove torch.cuda.empty_cache() from the step"
    now, then = after_us("allocator", emptied, tmp_path)
    assert now > 800
    assert then < 120


def test_memory_in_pieces_needs_expandable_segments(tmp_path: Path) -> None:
    (found,) = proposed("allocator", retried, tmp_path)
    assert found.order == "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def test_steady_steps_and_single_allocations_stay(tmp_path: Path) -> None:
    assert proposed("allocator", worked, tmp_path) == []
    sketch = stepping(worked)
    sketch.step()
    emptied(sketch)
    assert proposals("allocator", open_made(sketch, tmp_path)) == []
