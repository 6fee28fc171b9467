"""Many rows added to few, and to many."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest
from analyze.rules.sketch import kernel

NAME = "void at::native::indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true>(int)"


def _index_add(rows: int, us: float) -> Draw:
    return lambda sketch: sketch.op(
        "aten::index_add_",
        kernel(NAME, us),
        dims=[[rows, 512], [], [100_000], [100_000, 512], []],
        types=["float", "Scalar", "long int", "float", "Scalar"],
        concrete=["", "0", "", "", "1"],
    )


def test_atomics_that_collide(fix: FixUnderTest) -> None:
    (found,) = fix.once(_index_add(8, 400))
    assert "100000 rows collide in 8" in found.why
    (ns,) = found.change.length.values()
    assert 50_000 < ns < 150_000
    assert found.change.left > 1  # the host issues more ops


@pytest.mark.parametrize(("rows", "us"), [(50_000, 400), (8, 60)])
def test_spread_or_fast_ones_stay(rows: int, us: float, fix: FixUnderTest) -> None:
    assert not fix.once(_index_add(rows, us))
