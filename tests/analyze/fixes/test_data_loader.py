from __future__ import annotations

from analyze.fixes.proposing import FixUnderTest
from analyze.rules.sketch import GEMM, Sketch, kernel

NEXT = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"


def loading(sketch: Sketch, kind: str = "SingleProcess", us: float = 4_000) -> None:
    sketch.host("user_annotation", NEXT.format(kind), us)
    sketch.op("aten::mm", kernel(GEMM, 500), us=600)


def test_workers_load(fix: FixUnderTest) -> None:
    found, now, then = fix.goes(loading)
    assert found.order == "DataLoader(num_workers=8, pin_memory=True)"
    assert found.why == "the process itself makes 1 batch in 87.0% of the step"
    assert now > 4_500
    assert 600 < then < 700
    FixUnderTest("python_time", fix.folder).stays(loading)


def test_workers_that_are_too_few(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: loading(sketch, "MultiProcessing"))
    assert found.order == "give the DataLoader more workers, or a lighter transform"


def test_a_batch_that_is_ready(fix: FixUnderTest) -> None:
    fix.stays(lambda sketch: loading(sketch, us=40))
