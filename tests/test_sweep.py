"""What a run leaves out is counted, and cases of one test all run."""

from __future__ import annotations

from pathlib import Path

import pytest

import sweep

pytest_plugins = "pytester"
TEST = """
import pytest
from sweep import examples, part

@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", range(9))
def test_one_of_three(number): ...

@pytest.mark.sweep
def test_large(): ...

def test_inside():
    assert len(part(range(12), 4)) == 3
    assert examples(20) == 2

@pytest.mark.skip("needs a moon")
def test_moon(): ...
"""


def test_the_end_of_a_run_says_what_was_left_out(pytester: pytest.Pytester) -> None:
    """Also where a worker of xdist leaves it out."""
    if sweep.FULL:
        pytest.skip("nothing is left out of the full sweep")
    hooks = Path(sweep.__file__).parent
    pytester.makeconftest(f"import sys\nsys.path.insert(0, {str(hooks)!r})\nfrom sweep import *")
    pytester.makepyfile(TEST)
    pytester.makeini("[pytest]\nmarkers = sweep")
    ran = pytester.runpytest_subprocess("-n", "1", "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=4, skipped=1)
    # 3 of 9, 0 of 1, 3 of 12, 2 of 200
    ran.stdout.fnmatch_lines(
        [
            "sampled: 8 of 222 cases of sweeps; make test-full runs all",
            "skipped: 1 (needs a moon)",
        ]
    )


def test_every_case_runs_and_those_that_fail_are_named() -> None:
    ran: list[int] = []

    @sweep.looped(("one", "other"), [(1, 1), (2, 3), (4, 4), (5, 6)])
    def same(one: int, other: int) -> None:
        ran.append(one)
        assert one == other, "they differ"

    with pytest.raises(
        AssertionError, match=r"^2 of 4 cases:\n\(2, 3\): AssertionError: they differ"
    ) as raised:
        same()
    assert ran == [1, 2, 4, 5]
    assert "(5, 6): AssertionError: they differ" in str(raised.value)
