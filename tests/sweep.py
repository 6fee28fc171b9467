"""How much of a long sweep runs: a fixed part, or all of it with `FORETRACE_SWEEP=full` (`make test-full`).

A test says it with `@pytest.mark.sweep(3)`: one of three of its cases runs, and with `@pytest.mark.sweep`: none.
What is left out fails for the reasons for which the cases that run fail, or a cheaper test beside it. What a test
goes through inside takes `part` and `examples`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import pytest

FULL = os.environ.get("FORETRACE_SWEEP") == "full"
Case = TypeVar("Case")


def examples(sample: int) -> int:
    """How many examples a property is tried on."""
    return sample * 30 if FULL else sample // 2


def part(cases: Sequence[Case], every: int = 6) -> list[Case]:
    """One case of so many, or all."""
    return list(cases if FULL else cases[::every])


def left_out(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases that only the full sweep runs."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sweep")
        if mark is not None and not FULL:
            test = item.nodeid.partition("[")[0]
            if not mark.args or seen[test] % mark.args[0]:
                yield item
            seen[test] += 1
