"""When a fix is a gain, and when results are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from foretrace.record.tries.judging import apart, difference, gain, is_same, spread
from foretrace.record.tries.rounds import Kept


def test_the_median_of_pairs_has_an_interval_without_the_outermost() -> None:
    found = gain([(100.0 + each, 50.0) for each in range(21)])  # the eleven quieter ones count
    assert (found.ratio, found.low, found.high, found.pairs) == (2.1, 2.02, 2.18, 21)
    assert found.is_gain


def test_pairs_in_which_the_machine_was_busy_do_not_count() -> None:
    """Other work doubles the time of the side without the fix, and leaves the other side alone."""
    found = gain([(100.0, 50.0)] * 6 + [(200.0, 50.0)] * 5)
    assert (found.ratio, found.low, found.high) == (2, 2, 2)
    assert gain([(100.0, 50.0)] * 4 + [(200.0, 50.0)] * 5).ratio == 4  # few pairs all count


def test_one_slow_block_is_no_gain() -> None:
    assert not gain([(100, 100)] * 10 + [(900, 100)]).is_gain


def test_a_gain_below_two_percent_is_none() -> None:
    assert not gain([(101.5, 100)] * 11).is_gain


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([(90, 100), (180, 100), (225, 100), (300, 100)], "0.90x to 3.00x"),
        ([(101, 100)] * 4, ""),
        ([(90, 100)] * 4, "slower"),
    ],
)
def test_a_ratio_that_is_no_gain_shows_its_interval(pairs: list[Any], why: str) -> None:
    assert gain(pairs).why_not == why


@pytest.mark.parametrize("count", [11, 33, 99])
def test_equal_sides_are_hardly_ever_a_gain(count: int) -> None:
    """Blocks whose times scatter by 5%; a gain by chance in one of a hundred tries, or less."""
    chance = random.Random(0)
    times = lambda: [(chance.gauss(100, 5), chance.gauss(100, 5)) for _ in range(count)]  # noqa: E731
    tries = 22_000 // count
    assert sum(gain(times()).is_gain for _ in range(tries)) < 0.015 * tries


def test_processes_are_a_gain_only_if_all_are_faster() -> None:
    assert gain(apart([110, 112, 111, 130], [100, 99, 101, 98])).is_gain
    assert not gain(apart([110, 112, 111, 100], [90, 91, 101, 92])).is_gain


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Kept([2.0, 1.0], []), Kept([2.0, 1.1], []), 0.1),
        (Kept([], [[3.0, 4.0]]), Kept([], [[3.0, 4.5]]), 0.1),
        (Kept([], [[3.0]]), Kept([], [[3.0, 4.5]]), float("inf")),
        (Kept([1.0], []), Kept([float("nan")], []), float("inf")),
        (Kept([float("nan")], []), Kept([float("nan")], []), 0.0),
        (Kept([], []), Kept([], []), None),
    ],
)
def test_differences_are_shares(one: Kept, other: Kept, expected: float | None) -> None:
    found = difference(one, other)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_noise_of_untouched_runs_excuses_a_difference() -> None:
    assert is_same(1e-2, 0.0, 1e-3) is False
    assert is_same(1e-2, 5e-3, 1e-3) is True
    assert is_same(None, 0.0, 1e-3) is None


def test_one_stalled_block_does_not_widen_the_baseline() -> None:
    pairs = [(100.0, 101.0), (99.0, 100.0), (100.0, 1200.0), (101.0, 99.0), (100.0, 102.0)]
    low, high = spread(pairs + pairs[:2] + pairs[3:])
    assert low == 0.99
    assert high < 1.03
