"""Where the kernel changes as one size of a matmul grows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import polars as pl

from foretrace.names.gemms.table import GemmMap
from foretrace.schema.documents.gemms import KernelRange
from foretrace.schema.gemms import GemmPoint

SIZES = ("m", "n", "k")


class Boundary(NamedTuple):
    """The sizes between which the kernel changes, as near as the map has measured."""

    last: int
    first: int


def along(found: GemmMap, point: GemmPoint, name: str = "m") -> pl.DataFrame:
    """Matmuls that differ from this one in one size alone, in order of it."""
    fixed = [pl.col(each) == getattr(point, each) for each in SIZES if each != name]
    return found.like(point).filter(*fixed).sort(name)


def ranges(rows: pl.DataFrame) -> list[KernelRange]:
    """Sizes by kernel, in order of M."""
    made: list[KernelRange] = []
    for m, *named in rows.select("m", "short", "cluster", "kernel").iter_rows():
        short, cluster, kernel = named
        first = made.pop().first_m if made and made[-1].kernel == kernel else m
        made.append(KernelRange(first, m, short, cluster or "", kernel))
    return made


def differing(a: GemmPoint, b: GemmPoint) -> str | None:
    """The one size in which two matmuls differ; None where it is not one."""
    names = [name for name in GemmPoint._fields if getattr(a, name) != getattr(b, name)]
    return names[0] if len(names) == 1 and names[0] in SIZES else None


def crossed(
    found: GemmMap, a: tuple[GemmPoint, str], b: tuple[GemmPoint, str]
) -> list[Boundary] | None:
    """The boundaries between two matmuls that ran on these kernels.

    None unless the map holds both matmuls, gives them exactly these kernels, and the matmuls
    differ in one size alone.
    """
    name = differing(a[0], b[0])
    if name is None or not all(_agrees(found, *each) for each in (a, b)):
        return None
    low, high = sorted(getattr(each[0], name) for each in (a, b))
    rows = along(found, a[0], name).filter(pl.col(name).is_between(low, high))
    return _changes(rows.select(name, "kernel").rows())


def _agrees(found: GemmMap, point: GemmPoint, kernel: str) -> bool:
    at = found.rows.get(point)
    return at is not None and found.frame["kernel"][at] == kernel


def _changes(rows: Sequence[tuple[Any, ...]]) -> list[Boundary]:
    pairs = pairwise(rows)
    return [Boundary(before[0], after[0]) for before, after in pairs if before[1] != after[1]]
