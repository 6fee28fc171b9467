"""A kernel that is far below every roof, and one that is near."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest, times_us
from analyze.rules.sketch import ADD, kernel


def _add(us: float) -> Draw:
    dims = [[4096, 4096], [4096, 4096], []]
    return lambda sketch: sketch.op("aten::add", kernel(ADD, us), dims=dims)


def test_the_prediction_is_cautious(fix: FixUnderTest) -> None:
    (found,) = fix.once(_add(2000))
    assert found.order == "write add with another op or layout"
    assert times_us(found) == [1000.0]
    assert found.worst is not None
    assert times_us(found)[0] * 1e3 < max(found.worst.length.values())


@pytest.mark.parametrize("us", [30, 150])
def test_short_and_near_ones_stay(us: float, fix: FixUnderTest) -> None:
    assert not fix.once(_add(us))
