from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.fixes.waiting import waits
from analyze.rules.sketch import GEMM, Sketch, kernel, memcpy

COPY = "aten::to > aten::_to_copy > aten::copy_"


def layers(sketch: Sketch, memory: str = "Pageable", count: int = 6) -> None:
    for _ in range(count):
        sketch.op("aten::mm", kernel(GEMM, 20), us=30)
        for name in ("aten::empty", "aten::to", "aten::lift_fresh"):
            sketch.op(name, us=4)
        up = memcpy(f"Memcpy HtoD ({memory} -> Device)", 2, 512)
        if memory == "Pageable":
            waits(sketch, COPY, up)
        else:
            sketch.op(COPY, up)


def test_a_constant_is_made_once(tmp_path: Path) -> None:
    (found,) = proposed("small_copies", layers, tmp_path)
    assert found.why == "6 copies of 512 B from the host per step, 6 waits"
    now, then = after_us("small_copies", layers, tmp_path)
    assert now > 310
    assert then < 200, "the products and their host time remain"


def test_new_data_stays(tmp_path: Path) -> None:
    assert proposed("small_copies", lambda sketch: layers(sketch, count=2), tmp_path) == []
    assert proposed("small_copies", lambda sketch: layers(sketch, "Pinned"), tmp_path) == []
