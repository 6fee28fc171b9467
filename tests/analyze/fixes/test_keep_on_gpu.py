from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, opened, proposals, proposed, stepping
from analyze.rules.sketch import GEMM, Sketch, kernel, memcpy

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
    assert proposals("keep_on_gpu", opened(sketch, tmp_path)) == []


def test_many_copies_of_one_shape_are_weights(tmp_path: Path) -> None:
    def squares(sketch: Sketch, count: int) -> None:
        for _ in range(count):
            copied(sketch, TALL)
        sketch.op("aten::mm", kernel(GEMM, 20), dims=[TALL, TALL])

    assert proposed("keep_on_gpu", lambda made: squares(made, 1), tmp_path) == []
    (found,) = proposed("keep_on_gpu", lambda made: squares(made, 3), tmp_path)
    assert len(found.change.gone) == 3
