from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.fixes.waiting import DOWN, waits
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel

WHOLE, SELECTED, MASK = [4096, 512], [2048, 512], [4096]
FOUND = kernel("void at::native::flag_kernel<bool>(bool*)", 3)
GATHER = kernel("void at::native::index_elementwise_kernel<128, 4>(int)", 4)


def masked(sketch: Sketch, path: str, dims: list[list[int]]) -> None:
    """An op that finds the elements of a mask, waits for their number, and moves them."""
    first = len(sketch.events)
    waits(sketch, f"{path} > aten::nonzero", FOUND, DOWN, dims=[MASK], types=["bool"])
    sketch.events[first]["args"] = {
        "Input Dims": dims,
        "Input type": ["c10::BFloat16" if each else "" for each in dims],
    }
    sketch.op("aten::take", GATHER)
    sketch.events[first]["dur"] = round(sketch.now - sketch.events[first]["ts"], 3)


def layer(sketch: Sketch) -> None:
    sketch.op("aten::clone", kernel(ADD, 5), dims=[WHOLE])
    masked(sketch, "aten::index", [WHOLE, []])
    sketch.op("aten::mm", kernel(GEMM, 6), dims=[SELECTED, [512, 512]])
    masked(sketch, "aten::index_put_", [WHOLE, [], SELECTED, []])


def numbers(sketch: Sketch) -> None:
    sketch.op("aten::index", GATHER, dims=[WHOLE, []])
    waits(sketch, "aten::nonzero", FOUND, DOWN, dims=[MASK])


def test_a_masked_write_becomes_one_op(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(layer)
    assert found.order == "write the mask with torch.where(mask, new, x)"
    assert found.why == "2 waits per step for nonzero(), which sizes x[mask]"
    assert 12_000 in found.change.length.values(), "the product works on all rows"
    assert then < 0.5 * now


def test_indices_and_nonzero_alone_stay(fix: FixUnderTest) -> None:
    fix.stays(numbers)
