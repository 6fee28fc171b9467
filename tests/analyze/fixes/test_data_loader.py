from __future__ import annotations

from pathlib import Path

from analyze.fixes.proposing import after_us, proposed
from analyze.rules.sketch import GEMM, Sketch, kernel

NEXT = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"


def loading(sketch: Sketch, kind: str = "SingleProcess", us: float = 4_000) -> None:
    sketch.host("user_annotation", NEXT.format(kind), us)
    sketch.op("aten::mm", kernel(GEMM, 500), us=600)


def test_workers_load(tmp_path: Path) -> None:
    (found,) = proposed("data_loader", loading, tmp_path)
    assert found.order == "DataLoader(num_workers=8, pin_memory=True)"
    assert found.why == "the process itself makes 1 batch in 87.0% of the step"
    now, then = after_us("data_loader", loading, tmp_path)
    assert now > 4_500
    assert 600 < then < 700
    assert proposed("python_time", loading, tmp_path) == []


def test_workers_that_are_too_few(tmp_path: Path) -> None:
    (found,) = proposed("data_loader", lambda sketch: loading(sketch, "MultiProcessing"), tmp_path)
    assert found.order == "give the DataLoader more workers, or a lighter transform"


def test_a_batch_that_is_ready(tmp_path: Path) -> None:
    assert proposed("data_loader", lambda sketch: loading(sketch, us=40), tmp_path) == []
