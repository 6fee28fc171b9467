"""A large embedding of which a step reads few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest
from analyze.fixes.test_on_cpu import found, matmul
from analyze.rules.sketch import GEMM, Sketch, kernel

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"


def _backward(rows: int, tied: bool = False) -> Draw:
    def draw(sketch: Sketch) -> None:
        fill = "aten::embedding_dense_backward > aten::zero_ > aten::fill_"
        sketch.op(fill, kernel(FILL, 200), dims=[[1_000_000, 128], []], types=["float", "Scalar"])
        outer = next(each for each in sketch.events if "dense_backward" in each["name"])
        outer["args"] = {
            "Input Dims": [[rows, 128], [rows], [], [], []],
            "Input type": ["float", "long int", "Scalar", "Scalar", "Scalar"],
            "Concrete Inputs": ["", "", "1000000", "-1", "False"],
        }
        if tied:
            dims = [[1_000_000, rows], [rows, 128]]
            sketch.op("aten::mm", kernel(GEMM, 20_000), dims=dims, types=["float", "float"])

    return draw


def test_the_fill_shrinks(fix: FixUnderTest) -> None:
    (found,) = fix.once(_backward(4096))
    assert "512.0 MB" in found.why
    (ns,) = found.change.length.values()
    assert ns < 10_000


@pytest.mark.parametrize("draw", [_backward(400_000), _backward(4096, tied=True)])
def test_a_gradient_that_is_dense_anyway_stays(draw: Draw, fix: FixUnderTest) -> None:
    assert not fix.once(draw)


@pytest.mark.parametrize(
    ("rows", "table", "tied", "goes"),
    [
        (512, 60_000, False, True),
        (512, 60_000, True, False),
        (9_000, 60_000, False, False),  # most batches read such a share
        (512, 6_000, False, False),  # 768 KB stay in the cache
    ],
)
def test_a_table_on_a_cpu(rows: int, table: int, tied: bool, goes: bool, tmp_path: Path) -> None:
    def step(sketch: Sketch) -> None:
        matmul(sketch, us=200)
        dims, types = [[rows, 32], [rows], [], [], []], ["float", "long int", *["Scalar"] * 3]
        place = ["", "", str(table), "-1", "False"]
        name = "aten::embedding_dense_backward"
        sketch.op(name, us=100, dims=dims, types=types, concrete=place)
        for each in ("lerp_", "addcmul_", "sqrt", "addcdiv_"):
            sketch.op(f"aten::{each}", us=1_000, dims=[[table, 32]] * 2, types=["float"] * 2)
        if tied:
            shapes = [[32, rows], [32, table]]
            sketch.op("aten::mm", us=100, dims=shapes, types=["float"] * 2)

    (fix,) = [fix for fix in found(step, tmp_path) if fix.fix == "dense_gradients"] or [None]
    assert (fix is not None) == goes
    if fix:
        assert fix.proposal.why == "a gradient of 7.68 MB is filled, of which 0.9% are not zero"
        assert sum(end - start for start, end in fix.proposal.change.removed) == 4_000_000
