from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel, memcpy

BATCH = [64, 1024, 256]
PATH = "aten::to > aten::_to_copy > aten::copy_"


def copied(sketch: Sketch, memory: str, size: int) -> None:
    up = memcpy(f"Memcpy HtoD ({memory} -> Device)", 8_000, size)
    sketch.op(PATH, up, dims=[BATCH, BATCH], types=["float", "float"])
    sketch.sync("cudaStreamSynchronize")
    # the wait is the copy's own
    wait, op = (
        sketch.events[-1],
        next(each for each in reversed(sketch.events) if each["name"] == "aten::to"),
    )
    for each in sketch.events[sketch.events.index(op) :]:
        if each["cat"] == "cpu_op":
            each["dur"] = wait["ts"] + wait["dur"] - each["ts"]
    sketch.op("aten::mm", kernel(GEMM, 9_000), dims=[[64, 64], [64, 64]])


def pageable(sketch: Sketch) -> None:
    copied(sketch, "Pageable", 67_108_864)


def pinned(sketch: Sketch) -> None:
    copied(sketch, "Pinned", 67_108_864)


def small(sketch: Sketch) -> None:
    copied(sketch, "Pageable", 65_536)


def test_pinned_memory_copies_at_the_speed_of_the_link(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(pageable)
    assert found.order == "x.pin_memory() once, then .to('cuda', non_blocking=True)"
    (length,) = found.change.length.values()
    assert length == 67_108_864 / 55e9 * 1e9
    assert found.change.unwaited
    assert now > 17_000
    assert then < 10_500


def test_pinned_and_small_copies_stay(fix: FixUnderTest) -> None:
    fix.stays(pinned, small)
