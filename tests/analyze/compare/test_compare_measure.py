"""The noise: exact numbers from few repeats."""

from __future__ import annotations

import pytest

from foretrace.analyze.compare.measure import Change, Sample, measured, sample


def test_a_cold_first_step_does_not_widen_the_noise() -> None:
    """Three repeats, one far off: the two that agree decide."""
    found = sample([446_278, 291_063, 281_276], tick=32)
    assert found.median == 291_063
    assert found.spread == pytest.approx(9_787 * 1.4826 * 1.495)


def test_noise_is_never_below_a_tick() -> None:
    assert sample([2_688, 2_688, 2_688], tick=32) == Sample(2_688, 32)
    # one tick apart is no change
    assert measured(Sample(2_688, 32), Sample(2_656, 32)).beyond is False


def test_one_repeat_has_no_noise_and_no_verdict() -> None:
    found = measured(sample([100], 1), sample([200, 201, 202], 1))
    assert (found.ratio, found.noise, found.beyond) == (2.01, None, None)


def test_a_repeat_without_a_time_makes_the_quantity_unknown() -> None:
    assert sample([100, None, 100], 1) == Sample(None, None)
    assert measured(Sample(None, None), Sample(5, 1)) == Change(None, 5, None)


@pytest.mark.parametrize(
    ("a", "b", "noise", "beyond"),
    [
        (100, 112, 0.10, True),
        (112, 100, 0.10, True),
        (100, 110, 0.10, False),
        (100, 100, 0.0, False),
        (0, 5, 0.5, True),
        (5, 0, 0.5, True),
        (0, 0, 0.0, False),
    ],
)
def test_beyond_the_noise_reads_the_same_from_both_ends(
    a: int, b: int, noise: float, beyond: bool
) -> None:
    assert Change(a, b, noise).beyond is beyond


def test_ratio_from_nothing() -> None:
    assert Change(0, 5, 0.0).ratio is None
    assert Change(0, 0, 0.0).ratio == 1.0
    assert Change(None, 5, None).ratio is None


def test_even_numbers_of_repeats() -> None:
    assert sample([10, 20], 1).median == 15
    assert sample([10, 21], 1).median == 15.5
