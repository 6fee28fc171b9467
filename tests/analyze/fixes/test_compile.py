from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import ADD, GELU, GEMM, MUL, Sketch, kernel

BIG, SQUARE = [8192, 8192], [4096, 4096]


def chain(sketch: Sketch) -> Sketch:
    for name, function in (("gelu", GELU), ("mul", MUL), ("add", ADD), ("mul", MUL)):
        sketch.op(f"aten::{name}", kernel(function, 100), dims=[BIG, BIG][: 2 - (name == "gelu")])
    return sketch


def matmuls(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::mm", kernel(GEMM, 200), dims=[SQUARE, SQUARE])


def test_a_chain_becomes_one_kernel(tmp_path: Path) -> None:
    (found,) = proposed("compile", chain, tmp_path)
    assert found.why == "4 kernels can fuse into 1; 4 launches per step"
    assert len(found.change.gone) == 3
    now, then = after_us("compile", chain, tmp_path)
    assert now > 400
    assert 90 < then < 200


def test_a_wait_goes_first(tmp_path: Path) -> None:
    (found,) = proposed("compile", lambda sketch: chain(sketch).sync(), tmp_path)
    assert found.first == "1 wait of the host (torch.cuda.synchronize())"


def test_matmuls_gain_nothing(tmp_path: Path) -> None:
    now, then = after_us("compile", matmuls, tmp_path)
    assert then > 0.97 * now


def test_compiled_code_stays(tmp_path: Path) -> None:
    def compiled(sketch: Sketch) -> None:
        sketch.host("cpu_op", "Torch-Compiled Region: 0/0", 20)
        chain(sketch)

    assert proposed("compile", compiled, tmp_path) == []
