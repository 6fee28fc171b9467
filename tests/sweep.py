"""How much of a long sweep runs: a fixed part, or all of it with `FORETRACE_SWEEP=full` (`make test-full`).

A test says it with `@pytest.mark.sweep(3)`: one of three of its cases runs, and with `@pytest.mark.sweep`: none.
What is left out fails for the reasons for which the cases that run fail, or a cheaper test beside it. What a test
goes through inside takes `part` and `examples`. Dozens of cases that need no fixture are one test: `looped`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

FULL = os.environ.get("FORETRACE_SWEEP") == "full"
PARAM = type(pytest.param())
Case = TypeVar("Case")


def examples(sample: int) -> int:
    """How many examples a property is tried on."""
    return sample * 30 if FULL else sample // 2


def part(cases: Sequence[Case], every: int = 6) -> list[Case]:
    """One case of so many, or all."""
    return list(cases if FULL else cases[::every])


def looped(
    names: str | Sequence[str], cases: Iterable[Any], ids: Any = None
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """As `pytest.mark.parametrize`, in one test: every case runs, and those that fail are named."""
    wanted = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    given = (
        (case,) if len(wanted) == 1 and not isinstance(case, PARAM) else case for case in cases
    )
    rows = [case.values if isinstance(case, PARAM) else case for case in given]
    labels = list(ids) if ids is not None and not callable(ids) else [None] * len(rows)

    def one(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            failed: dict[str, Exception] = {}
            for row, label in zip(rows, labels, strict=True):
                try:
                    test(**dict(zip(wanted, row, strict=True)))
                except Exception as error:  # noqa: BLE001 - whatever a case raises is its failure
                    failed[str(label or ", ".join(map(str, row)))] = error
            if failed:
                said = "\n".join(f"[{label}] {error}" for label, error in failed.items())
                first = next(iter(failed.values()))
                raise AssertionError(f"{len(failed)} of {len(rows)} cases:\n{said}") from first

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return one


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
