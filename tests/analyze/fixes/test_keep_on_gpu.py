from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analyze.fixes.proposing import after_us, proposals, proposed, stepping
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


def test_a_weight_that_each_step_copies_stays(tmp_path: Path) -> None:
    (found,) = proposed("keep_on_gpu", with_weight, tmp_path)
    assert found.why == "each step copies 1 weight from the host (33.6 MB)"
    now, then = after_us("keep_on_gpu", with_weight, tmp_path)
    assert now > 600
    assert then < 40


def test_a_batch_is_no_weight(tmp_path: Path) -> None:
    assert proposed("keep_on_gpu", with_batch, tmp_path) == []


def test_a_weight_that_one_step_loads_is_not_kept_twice(tmp_path: Path) -> None:
    sketch = stepping(matmul)
    sketch.step()
    with_weight(sketch)
    assert proposals("keep_on_gpu", open_made(sketch, tmp_path)) == []


def test_many_copies_of_one_shape_are_weights(tmp_path: Path) -> None:
    def squares(sketch: Sketch, count: int) -> None:
        for _ in range(count):
            copied(sketch, TALL)
        sketch.op("aten::mm", kernel(GEMM, 20), dims=[TALL, TALL])

    assert proposed("keep_on_gpu", lambda made: squares(made, 1), tmp_path) == []
    (found,) = proposed("keep_on_gpu", lambda made: squares(made, 3), tmp_path)
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


def test_an_average_on_the_host_moves_to_the_gpu(tmp_path: Path) -> None:
    (found,) = proposed("keep_on_gpu", averaged, tmp_path)
    assert found.order == "keep it on the GPU and update it there, without .cpu()"
    assert found.why == "each step copies 2 tensors to the host (134.2 MB) for add_ on the CPU"
    assert found.risk == "134.2 MB of GPU memory"
    # 402.7 MB at 60% of the 4.709 TB/s that was measured
    assert list(found.change.length.values()) == [pytest.approx(142_512, abs=1)]
    assert len(found.change.gone) == 1
    now, then = after_us("keep_on_gpu", averaged, tmp_path)
    assert now > 5600
    assert then < 220


def test_a_copy_that_the_host_only_keeps_is_none(tmp_path: Path) -> None:
    """A snapshot, a copy that an op on the GPU follows, and one to pinned memory."""
    builds: list[Callable[[Sketch], None]] = [
        lambda sketch: averaged(sketch, then="aten::copy_"),
        lambda sketch: averaged(sketch, then="aten::add"),
        lambda sketch: averaged(sketch, kernels=(kernel(ADD, 20),)),
        lambda sketch: averaged(sketch, to="Pinned"),
    ]
    assert [proposed("keep_on_gpu", build, tmp_path) for build in builds] == [[]] * 4
