"""Quantities as text."""

from __future__ import annotations

import pytest

from foretrace.base.units import bytes_text, change_text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (69_792, 37_440, "69.8 to 37.4 us"),
        (950, 1_200_000, "950 ns to 1.20 ms"),
        (0, 100, "0 to 100 ns"),
        (None, 37_440, "– to 37.4 us"),
        (37_440, None, "37.4 us to –"),
        (None, None, "– to –"),
    ],
)
def test_a_change_of_time_names_its_unit_once(
    before: float | None, after: float | None, text: str
) -> None:
    assert change_text(before, after) == text


def test_a_change_of_bytes() -> None:
    assert change_text(251_658_240, 150_994_944, bytes_text) == "251.7 to 151.0 MB"
