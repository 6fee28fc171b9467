"""Distinct values of columns: as NumPy finds them."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from foretrace.base.arrays import coded, counted, distinct, is_in, median

DTYPES = ("int8", "int32", "int64", "uint8", "uint64", "float64", "bool")


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(-128, 127)),
    st.integers(0, 1) | st.integers(1 << 40, 1 << 50),
)
def test_columns_of_any_type_and_spread_are_those_of_numpy(
    dtype: str, numbers: list[int], scale: int
) -> None:
    column = np.array(numbers, np.int64) * (scale if dtype in ("int64", "float64") else 1)
    check(column.astype(dtype))


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_median_is_that_of_statistics(numbers: list[float]) -> None:
    assert median(iter(numbers)) == statistics.median(numbers)


@pytest.mark.parametrize("values", [["b", "a", "b"], []])
def test_words_are_sorted(values: list[str]) -> None:
    check(np.array(values, np.dtypes.StringDType()))


def check(column: NDArray[Any]) -> None:
    np.testing.assert_array_equal(distinct(column), np.unique(column))
    half = column[: len(column) // 2]
    np.testing.assert_array_equal(is_in(column, half), np.isin(column, half))
    for ours, theirs in (
        (coded(column), np.unique(column, return_inverse=True)),
        (counted(column), np.unique(column, return_counts=True)),
    ):
        for mine, numpys in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, numpys)
            assert mine.dtype == numpys.dtype
