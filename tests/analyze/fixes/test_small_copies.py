from __future__ import annotations

from pathlib import Path

import foretrace as ft
from analyze.fixes.proposing import FixUnderTest
from analyze.fixes.waiting import waits
from analyze.rules.sketch import ADD, GEMM, Sketch, kernel, memcpy
from foretrace.analyze.fixes import _typical

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


def test_a_constant_is_made_once(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(layers)
    assert found.why == "6 copies of 512 B from the host per step, 6 waits"
    assert now > 310
    assert then < 200, "the products and their host time remain"


def test_new_data_stays(fix: FixUnderTest) -> None:
    fix.stays(lambda sketch: layers(sketch, count=2), lambda sketch: layers(sketch, "Pinned"))


def test_what_a_loader_makes_is_data() -> None:
    """A dataset that draws random numbers: the batch cannot be made on the GPU."""
    recorded = Path(__file__).parents[2] / "recorded/pages/how-to-loader/traces/slow_loader.json.gz"
    now = _typical.predicted(ft.open(recorded, cache=False))
    assert now is not None
    assert {each.fix for each in now.every} & {"small_copies", "data_loader"} == {"data_loader"}


TABLE, SIZE = [4096, 32], 524_288
UP = memcpy("Memcpy HtoD (Pageable -> Device)", 20, SIZE)


def copied(sketch: Sketch) -> None:
    waits(sketch, "aten::to > aten::copy_", UP, dims=[TABLE, TABLE], types=["float", "float"])
    sketch.op("aten::mul", kernel(ADD, 5), dims=[TABLE, TABLE])


def tables(sketch: Sketch) -> None:
    for _ in range(4):
        sketch.op("aten::arange", us=20)
        sketch.op("aten::cos", us=60, dims=[TABLE])
        copied(sketch)


def test_a_table_made_in_each_layer_is_made_once(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(tables)
    assert found.order == "make this tensor once on the GPU, before the loop"
    assert found.why == "4 copies of 524.3 kB from the host per step, 4 waits"
    assert len(found.change.gone) == len(found.change.removed) == 4
    assert found.change.unwaited


def test_noise_is_made_on_the_gpu(fix: FixUnderTest) -> None:
    def noise(sketch: Sketch) -> None:
        sketch.op("aten::randn", us=900, dims=[TABLE])
        copied(sketch)

    (found,) = fix.proposals(noise)
    assert found.order == 'make it with device="cuda"'
    assert not found.change.gone  # a kernel fills it
    assert 0 < found.change.left < 0.1


def test_data_from_elsewhere_stays(fix: FixUnderTest) -> None:
    def batches(sketch: Sketch) -> None:
        for _ in range(4):
            sketch.op("aten::stack", us=50, dims=[TABLE])
            copied(sketch)

    fix.stays(batches)


def test_a_table_on_the_gpu_stays(fix: FixUnderTest) -> None:
    def launched(sketch: Sketch) -> None:
        for _ in range(4):
            sketch.op("aten::arange", kernel(ADD, 2), us=20)
            copied(sketch)

    fix.stays(launched)
