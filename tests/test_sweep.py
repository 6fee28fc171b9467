"""Cases of one test: all run, and those that fail are named."""

from __future__ import annotations

import pytest

from sweep import looped


def test_every_case_runs_and_those_that_fail_are_named() -> None:
    ran: list[int] = []

    @looped(("one", "other"), [(1, 1), pytest.param(2, 3), (4, 4), (5, 6)])
    def same(one: int, other: int) -> None:
        ran.append(one)
        assert one == other, "they differ"

    with pytest.raises(AssertionError, match=r"^2 of 4 cases:\n\[2, 3\] they differ") as raised:
        same()
    assert ran == [1, 2, 4, 5]
    assert "[5, 6] they differ" in str(raised.value)


def test_one_value_is_given_as_it_is() -> None:
    ran: list[object] = []
    looped("one", [(1, 2), pytest.param("x")], ids=["pair", "text"])(lambda one: ran.append(one))()
    assert ran == [(1, 2), "x"]
