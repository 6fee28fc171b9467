from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import COPY, Sketch, kernel, memcpy

DATA = [4096, 4096]
PATH = "aten::to > aten::_to_copy > aten::copy_"


def copied(sketch: Sketch, wide: str, narrow: str) -> None:
    up = memcpy("Memcpy HtoD (Pinned -> Device)", 2_400, 8 * 4096 * 4096)
    sketch.op(PATH, up, dims=[DATA, DATA], types=[wide, wide])
    sketch.op(PATH, kernel(COPY, 60), dims=[DATA, DATA], types=[narrow, wide])


def doubles(sketch: Sketch) -> None:
    copied(sketch, "double", "float")


def test_half_the_bytes_take_half_the_time(tmp_path: Path) -> None:
    (found,) = proposed("narrow_copies", doubles, tmp_path)
    assert found.order == "store the data as f32 on the host, not as f64"
    now, then = after_us("narrow_copies", doubles, tmp_path)
    assert 1_200 < now - then < 1_300


def test_wider_types_and_numbers_stay(tmp_path: Path) -> None:
    assert proposed("narrow_copies", lambda made: copied(made, "float", "double"), tmp_path) == []
    assert proposed("narrow_copies", lambda made: copied(made, "double", "int"), tmp_path) == []
