"""The matmuls of a sweep; no torch."""

from __future__ import annotations

from collections import Counter

from foretrace.names.gemms.distance import kind_of
from foretrace.record.experiments.gemms.points import (
    DTYPES,
    EPILOGUES,
    LAYOUTS,
    GemmPoint,
    fits,
    held_out,
    more,
    points,
)


def test_every_matmul_is_there_once_and_always_the_same() -> None:
    found = points()
    assert len(found) == len(set(found)) >= 2000
    assert found == points()
    assert {GemmPoint(8192, 3072, 768), GemmPoint(8192, 768, 3072)} <= set(found)
    assert {point.m for point in found if (point.n, point.k) == (4096, 4096)} >= set(range(1, 65))


def test_all_types_layouts_and_epilogues_are_swept() -> None:
    found = points()
    for name, values in (("layout", LAYOUTS), ("dtype", DTYPES), ("epilogue", EPILOGUES)):
        count = Counter(getattr(point, name) for point in found)
        assert set(count) == set(values)
        assert min(count.values()) >= 100


def test_what_torch_refuses_is_not_swept() -> None:
    assert all(fits(point) for point in (*points(), *held_out()))
    assert not fits(GemmPoint(8, 24, 32, dtype="fp8"))
    assert not fits(GemmPoint(8, 32, 32, "nn", "fp8"))
    assert not fits(GemmPoint(8192, 28672, 8192, dtype="fp32"))


def test_held_out_matmuls_are_new() -> None:
    assert len(held_out()) >= 400
    assert not set(held_out()) & set(points())


def test_more_matmuls_are_new_and_run_on_older_kernels() -> None:
    found = more(88)
    assert len(set(found)) == 88
    assert not set(found) & {*points(), *held_out()}
    kinds = Counter(kind_of(point) for point in found)
    assert kinds == {"16-bit, not aligned": 44, "tf32": 22, "fp32": 22}
