from __future__ import annotations

from collections.abc import Callable

import pytest

from analyze.fixes.proposing import FixUnderTest, stepping
from analyze.rules.sketch import ADD, GEMM, Sketch, Work, kernel, memcpy
from opened_traces import open_made

COPY = "aten::to > aten::_to_copy > aten::copy_"
WIDE, TALL = [256, 4096], [4096, 4096]


def copied(sketch: Sketch, dims: list[int]) -> None:
    up = memcpy("Memcpy HtoD (Pinned -> Device)", 600, 2 * dims[0] * dims[1])
    sketch.op(COPY, up, dims=[dims, dims])


def matmul(sketch: Sketch) -> None:
    sketch.op("aten::matmul > aten::mm", kernel(GEMM, 20), dims=[WIDE, TALL])
    sketch.op("aten::matmul", dims=[WIDE, TALL])  # as the outer op, which has the shapes too


def with_weight(sketch: Sketch) -> None:
    copied(sketch, TALL)
    matmul(sketch)


def with_batch(sketch: Sketch) -> None:
    copied(sketch, WIDE)
    matmul(sketch)


def test_a_weight_that_each_step_copies_stays(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(with_weight)
    assert found.why == "each step copies 1 weight from the host (33.6 MB)"
    assert now > 600
    assert then < 40


def test_a_batch_is_no_weight(fix: FixUnderTest) -> None:
    fix.stays(with_batch)


def test_a_weight_that_one_step_loads_is_not_kept_twice(fix: FixUnderTest) -> None:
    sketch = stepping(matmul)
    sketch.step()
    with_weight(sketch)
    assert fix.found(open_made(sketch, fix.folder))[1] == []


def test_many_copies_of_one_shape_are_weights(fix: FixUnderTest) -> None:
    def squares(sketch: Sketch, count: int) -> None:
        for _ in range(count):
            copied(sketch, TALL)
        sketch.op("aten::mm", kernel(GEMM, 20), dims=[TALL, TALL])

    fix.stays(lambda made: squares(made, 1))
    (found,) = fix.proposals(lambda made: squares(made, 3))
    assert len(found.change.gone) == 3


def averaged(
    sketch: Sketch, to: str = "Pageable", then: str = "aten::add_", kernels: tuple[Work, ...] = ()
) -> None:
    """A moving average on the host: `average.mul_(0.9).add_(weight.cpu())` for two weights."""
    for _ in range(2):
        sketch.op("aten::mul_", us=300, dims=[TALL, []], types=["float", "Scalar"])
        down = memcpy(f"Memcpy DtoH (Device -> {to})", 2000, 4 * TALL[0] * TALL[1])
        sketch.op(COPY, down, dims=[TALL, TALL], types=["float"] * 2).sync("cudaStreamSynchronize")
        sketch.op(then, *kernels, us=500, dims=[TALL, TALL, []], types=["float", "float", "Scalar"])
    matmul(sketch)


def test_an_average_on_the_host_moves_to_the_gpu(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(averaged)
    assert found.order == "keep it on the GPU and update it there, without .cpu()"
    assert found.why == "each step copies 2 tensors to the host (134.2 MB) for add_ on the CPU"
    assert found.risk == "134.2 MB of GPU memory"
    # 402.7 MB at 60% of the 4.709 TB/s that was measured
    assert list(found.change.length.values()) == [pytest.approx(142_512, abs=1)]
    assert len(found.change.gone) == 1
    assert now > 5600
    assert then < 220


def test_a_copy_that_the_host_only_keeps_is_none(fix: FixUnderTest) -> None:
    """A snapshot, a copy that an op on the GPU follows, and one to pinned memory."""
    builds: list[Callable[[Sketch], None]] = [
        lambda sketch: averaged(sketch, then="aten::copy_"),
        lambda sketch: averaged(sketch, then="aten::add"),
        lambda sketch: averaged(sketch, kernels=(kernel(ADD, 20),)),
        lambda sketch: averaged(sketch, to="Pinned"),
    ]
    assert [fix.proposals(build) for build in builds] == [[]] * 4
