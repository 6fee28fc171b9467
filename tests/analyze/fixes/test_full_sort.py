"""A sort of which a few elements are read, and one that is read in full."""

from __future__ import annotations

import pytest

from analyze.fixes.proposing import Draw, FixUnderTest
from analyze.rules.sketch import ADD, COPY, Sketch, kernel


def _sort(end: int, then: str = "") -> Draw:
    def draw(sketch: Sketch) -> None:
        dims = [[64, 32_000], [], []]
        sketch.op("aten::sort", kernel(COPY, 600), dims=dims, concrete=["", "-1", "True"])
        concrete = ["", "1", "0", str(end), "1"]
        sketch.op("aten::slice", dims=[[64, 32_000], [], [], [], []], concrete=concrete)
        if then:
            sketch.op(then, kernel(ADD, 5), dims=[[64, 32_000]])

    return draw


def test_topk_for_a_slice(fix: FixUnderTest) -> None:
    (found,) = fix.once(_sort(50))
    assert found.order == "use torch.topk(x, 50) instead of the sort"
    (ns,) = found.change.length.values()
    assert ns < 30_000


@pytest.mark.parametrize("draw", [_sort(30_000), _sort(50, "aten::cumsum")])
def test_a_sort_that_is_read_stays(draw: Draw, fix: FixUnderTest) -> None:
    assert not fix.once(draw)
