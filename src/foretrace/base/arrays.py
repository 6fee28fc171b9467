"""Columns of numbers: their types, nulls, and what `np.unique` and `np.isin` say of them, sooner.

Most columns of a trace hold small numbers: names, threads, ops, rows of another table. A table of
all numbers between the least and the largest finds theirs without a sort. Any other column is
sorted; `np.unique` hashes it, which takes forty times as long where most values differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Narrow = NDArray[Any]  # integers of whatever width holds them


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values."""
    if (table := _offsets(values)) is None:
        ordered = np.sort(values)
        begins = np.ones(len(ordered), bool)
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        return ordered[begins]
    low, offsets = table
    return _restored(np.flatnonzero(_occurring(offsets)), low, values)


def coded(values: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The distinct values, and the place of each value among them."""
    if (table := _offsets(values)) is None:
        found, places = np.unique(values, return_inverse=True)
        return found, places.reshape(-1)
    low, offsets = table
    occurs = _occurring(offsets)
    places = np.cumsum(occurs)
    places -= 1
    return _restored(np.flatnonzero(occurs), low, values), places[offsets]


def counted(values: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The distinct values, and how often each occurs."""
    if (table := _offsets(values)) is None:
        return np.unique(values, return_counts=True)
    low, offsets = table
    counts = np.bincount(offsets)
    found = np.flatnonzero(counts)
    return _restored(found, low, values), counts[found]


def is_in(values: NDArray[Any], others: NDArray[Any]) -> Bools:
    """Which values are among the others."""
    if not len(others):
        return np.zeros(len(values), bool)
    ordered = np.sort(others)
    place = np.searchsorted(ordered, values)
    place[place == len(ordered)] = 0
    found: Bools = ordered[place] == values
    return found


def _offsets(values: NDArray[Any]) -> tuple[int, Ints] | None:
    """The least value and how far above it each is; None where a table would be too large."""
    if values.dtype.kind not in "iu" or values.dtype == np.uint64 or not len(values):
        return None
    low, high = int(values.min()), int(values.max())
    # entries of the table per value: beyond that a sort is quicker
    if high - low > 4 * len(values) + (1 << 10):
        return None
    return low, values.astype(np.int64) - low


def _occurring(offsets: Ints) -> Bools:
    occurs = np.zeros(int(offsets.max()) + 1, bool)
    occurs[offsets] = True
    return occurs


def _restored(offsets: Ints, low: int, values: NDArray[Any]) -> NDArray[Any]:
    return (offsets + low).astype(values.dtype)


def median(values: Iterable[float]) -> float:
    """The median of a few numbers; `statistics`, which has the same, loads fractions."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def with_gaps(values: Any, present: Bools, name: str = "") -> pl.Series:
    """`values` with nulls wherever `present` is False."""
    series = values if isinstance(values, pl.Series) else pl.Series(name, values)
    if present.all():
        return series.alias(name)
    return series.zip_with(pl.Series(present), pl.Series([None], dtype=series.dtype)).alias(name)


def filled(series: pl.Series, value: int) -> Ints:
    """Integers with `value` in place of nulls."""
    if series.null_count():
        series = series.fill_null(value)
    return series.to_numpy().astype(np.int64, copy=False)
