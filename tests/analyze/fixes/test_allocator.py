from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest, stepping
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


def test_memory_that_is_given_back_is_kept(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(emptied)
    assert found.order == "remove torch.cuda.empty_cache() from the step"
    assert now > 800
    assert then < 120


def test_memory_in_pieces_needs_expandable_segments(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(retried)
    assert found.order == "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def test_steady_steps_and_single_allocations_stay(fix: FixUnderTest) -> None:
    fix.stays(worked)
    sketch = stepping(worked)
    sketch.step()
    emptied(sketch)
    assert fix.found(open_made(sketch, fix.folder))[1] == []
