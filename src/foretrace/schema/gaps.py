"""Between NumPy columns, which have no gaps, and Polars columns, which do.

Polars runs most operations on a column through its query engine, which costs a millisecond however
small the column is; a trace has dozens of columns. These two go past it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Narrow = NDArray[Any]  # integers of whatever width holds them


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
