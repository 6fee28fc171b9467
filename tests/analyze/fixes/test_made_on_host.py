from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import proposed
from analyze.fixes.waiting import waits
from analyze.rules.sketch import ADD, Sketch, kernel, memcpy

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


def test_a_table_made_in_each_layer_is_made_once(tmp_path: Path) -> None:
    (found,) = proposed("made_on_host", tables, tmp_path)
    assert found.order == "make this tensor once on the GPU and keep it"
    assert found.why == "4 tensors of 524.3 kB made on the CPU and copied per step"
    assert len(found.change.gone) == len(found.change.removed) == 4
    assert found.change.unwaited


def test_noise_is_made_on_the_gpu(tmp_path: Path) -> None:
    def noise(sketch: Sketch) -> None:
        sketch.op("aten::randn", us=900, dims=[TABLE])
        copied(sketch)

    (found,) = proposed("made_on_host", noise, tmp_path)
    assert found.order == 'make this tensor on the GPU: device="cuda"'
    assert not found.change.gone  # a kernel fills it
    assert 0 < found.change.left < 0.1


def test_data_from_elsewhere_stays(tmp_path: Path) -> None:
    def batches(sketch: Sketch) -> None:
        for _ in range(4):
            sketch.op("aten::stack", us=50, dims=[TABLE])
            copied(sketch)

    assert not proposed("made_on_host", batches, tmp_path)


def test_a_table_on_the_gpu_stays(tmp_path: Path) -> None:
    def launched(sketch: Sketch) -> None:
        for _ in range(4):
            sketch.op("aten::arange", kernel(ADD, 2), us=20)
            copied(sketch)

    assert not proposed("made_on_host", launched, tmp_path)
