"""Float64 tensors, and float64 scalars."""

from __future__ import annotations

from pathlib import Path

from analyze.fixes.sketched import Draw, proposed, times_us
from analyze.rules.sketch import ADD, kernel

NAME = ADD.replace("c10::BFloat16", "double")


def _add(kind: str) -> Draw:
    dims, types = [[4096, 4096], [4096, 4096], []], [kind, kind, "double"]
    return lambda sketch: sketch.op("aten::add", kernel(NAME, 100), dims=dims, types=types)


def test_float64_takes_half_in_float32(tmp_path: Path) -> None:
    (found,) = proposed("float64", _add("double"), tmp_path)
    assert times_us(found) == [50.0]


def test_a_scalar_does_not_count(tmp_path: Path) -> None:
    assert not proposed("float64", _add("float"), tmp_path)
