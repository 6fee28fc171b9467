"""Covered time against counting the moments one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foretrace.model.intervals import IntervalUnion

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def covered(ranges: list[tuple[int, int]]) -> tuple[IntervalUnion, set[int]]:
    start = np.array([low for low, _ in ranges], np.int64)
    end = np.array([low + length for low, length in ranges], np.int64)
    return IntervalUnion(start, end), {
        moment for low, length in ranges for moment in range(low, low + length)
    }


@given(RANGES, st.integers(0, 60), st.integers(0, 60))
def test_between_counts_every_moment_once(
    ranges: list[tuple[int, int]], one: int, other: int
) -> None:
    union, moments = covered(ranges)
    low, high = sorted((one, other))
    found = union.between(np.array([low]), np.array([high]))
    assert found.tolist() == [len(moments & set(range(low, high)))]


@given(RANGES, st.integers(0, 60))
def test_holds_counts_both_ends(ranges: list[tuple[int, int]], moment: int) -> None:
    union, _ = covered(ranges)
    assert union.holds(np.array([moment])).tolist() == [
        any(low <= moment <= low + length for low, length in ranges)
    ]


@given(RANGES)
def test_stretches_are_apart_and_in_order(ranges: list[tuple[int, int]]) -> None:
    union, moments = covered(ranges)
    assert (union.end[:-1] < union.start[1:]).all()
    assert int((union.end - union.start).sum()) == len(moments)
