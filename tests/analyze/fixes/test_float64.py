"""Float64 tensors, and float64 scalars."""

from __future__ import annotations

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import ADD, kernel

NAME = ADD.replace("c10::BFloat16", "double")


def _add(kind: str) -> Draw:
    dims, types = [[4096, 4096], [4096, 4096], []], [kind, kind, "double"]
    return lambda sketch: sketch.op("aten::add", kernel(NAME, 100), dims=dims, types=types)


def test_float64_takes_half_in_float32(fix: FixUnderTest) -> None:
    (found,) = fix.once(_add("double"))
    assert times_us(found) == [50.0]


def test_a_scalar_does_not_count(fix: FixUnderTest) -> None:
    assert not fix.once(_add("float"))
