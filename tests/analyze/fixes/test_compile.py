from __future__ import annotations

import pytest

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import ADD, GELU, GEMM, MUL, Sketch, kernel

BIG, SQUARE = [8192, 8192], [4096, 4096]


def chain(sketch: Sketch) -> Sketch:
    for name, function in (("gelu", GELU), ("mul", MUL), ("add", ADD), ("mul", MUL)):
        sketch.op(f"aten::{name}", kernel(function, 100), dims=[BIG, BIG][: 2 - (name == "gelu")])
    return sketch


def matmuls(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 200), dims=[SQUARE, SQUARE])


def test_a_chain_becomes_one_kernel(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(chain)
    assert found.why == "4 kernels can fuse into 1; 4 launches per step"
    assert len(found.change.gone) == 3
    assert now > 400
    assert 90 < then < 200


def test_a_wait_goes_first(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: chain(sketch).sync())
    assert found.first == "1 wait of the host (torch.cuda.synchronize())"


def test_matmuls_gain_nothing(fix: FixUnderTest) -> None:
    _, now, then = fix.goes(matmuls)
    assert then > 0.97 * now


def test_compiled_code_stays(fix: FixUnderTest) -> None:
    def compiled(sketch: Sketch) -> None:
        sketch.host("cpu_op", "Torch-Compiled Region: 0/0", 20)
        chain(sketch)

    fix.stays(compiled)


def distances(sketch: Sketch) -> None:
    """`(z[:, None] - c[None]).pow(2).sum(-1)`: each op runs in two parts."""
    cube = [16_384, 1024, 64]
    floats = ["float", "float", "Scalar"]
    sub, square = kernel(ADD, 1400), kernel(MUL, 1000)
    total = kernel("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()", 2000)
    sketch.op("aten::sub", sub, sub, dims=[[16_384, 1, 64], [1, 1024, 64], []], types=floats)
    sketch.op("aten::pow", square, square, dims=[cube, []], types=["float", "Scalar"])
    sums = {"types": ["float", "ScalarList", "Scalar", ""], "concrete": ["", "[-1]", "False", ""]}
    sketch.op("aten::sum", total, total, dims=[cube, [], [], []], **sums)


def test_parts_of_large_ops_fuse_into_one_kernel(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(distances)
    assert found.why == "6 kernels can fuse into 1; 6 launches per step"
    # each part reads 4.46 MB, and 67.1 MB go out, at 75% of 4.709 TB/s
    assert list(found.change.length.values()) == [pytest.approx(21_525, abs=1)]
    assert now > 8800
    assert then < 150
