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


def starting(sketch: Sketch, fork_us: float = 24_000) -> None:
    """The steps begin an epoch: a seed, the start of the workers, the sampler, the first batch."""
    sketch.op("aten::random_")
    sketch.op("aten::item > aten::_local_scalar_dense")
    sketch.pause(fork_us)
    sketch.op("aten::randperm")
    loading(sketch, "MultiProcessing")


def test_workers_that_start_anew(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(starting)
    assert found.order == "DataLoader(persistent_workers=True), or fewer workers"


def test_a_seed_of_the_sampler_starts_no_workers(fix: FixUnderTest) -> None:
    (found,) = fix.proposals(lambda sketch: starting(sketch, 100))
    assert found.order == "give the DataLoader more workers, or a lighter transform"


def test_a_batch_that_is_ready(fix: FixUnderTest) -> None:
    fix.stays(lambda sketch: loading(sketch, us=40))
