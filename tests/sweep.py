"""How much of a long sweep runs: a fixed part, or all of it with `FORETRACE_SWEEP=full` (`make test-full`).

    @pytest.mark.sweep(3)       one of three cases of the test runs; none without a number
    part(cases, 3)              the same for cases that a test goes through itself
    examples(200)               how many inputs a test makes: 20, or 2000

What is left out fails for the reasons for which the cases that run fail, or a cheaper test beside it. The end of a
run says how much was left out: each of the three adds to `COUNTS`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

FULL = os.environ.get("FORETRACE_SWEEP") == "full"
COUNTS: dict[str, tuple[int, int]] = {}  # who samples: how many cases run, of how many
PARAM = type(pytest.param())
Case = TypeVar("Case")


def _counted(runs: int, of: int) -> None:
    """Under the place of the call: a worker that comes by it a second time counts it once."""
    caller = sys._getframe(2)
    COUNTS[f"{caller.f_code.co_filename}:{caller.f_lineno}"] = (runs, of)


def examples(sample: int) -> int:
    """How many examples a property is tried on."""
    runs = sample * 10 if FULL else sample // 10
    _counted(runs, sample * 10)
    return runs


def part(cases: Sequence[Case], every: int = 6) -> list[Case]:
    """One case of so many, or all."""
    chosen = list(cases if FULL else cases[::every])
    _counted(len(chosen), len(cases))
    return chosen


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The cases that only the full sweep runs."""
    seen: Counter[str] = Counter()
    left = []
    for item in items:
        mark = item.get_closest_marker("sweep")
        if mark is None:
            continue
        test = item.nodeid.partition("[")[0]
        if not FULL and (not mark.args or seen[test] % mark.args[0]):
            left.append(item)
        seen[test] += 1
        runs, _ = COUNTS.get(test, (0, 0))
        COUNTS[test] = (runs + (item not in left[-1:]), seen[test])
    return left


def looped(names: str | Sequence[str], cases: Iterable[Any], ids: Any = None) -> Callable[..., Any]:
    """As `pytest.mark.parametrize`, in one test: for dozens of quick cases that need no fixture."""
    wanted = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    rows = [
        case.values if isinstance(case, PARAM) else case if len(wanted) > 1 else (case,)
        for case in cases
    ]

    def one(test: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            failed = []
            for row in rows:
                try:
                    test(**dict(zip(wanted, row, strict=True)))
                except Exception as error:  # noqa: BLE001 - whatever a case raises is its failure
                    failed.append(f"{row}: {type(error).__name__}: {error}")
            assert not failed, f"{len(failed)} of {len(rows)} cases:\n" + "\n".join(failed)

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return one


# ---- hooks, for conftest.py


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the full sweep runs, unless a test is asked for by name."""
    asked = tuple(each.removeprefix("./") for each in config.args if "::" in each)
    left = [item for item in left_out(items) if not item.nodeid.startswith(asked)]
    dropped = {item.nodeid for item in left}
    items[:] = [item for item in items if item.nodeid not in dropped]
    config.hook.pytest_deselected(items=left)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells the process that prints the summary how much was sampled."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["sampled"] = COUNTS


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    COUNTS.update(getattr(node, "workeroutput", {}).get("sampled", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How much of the sweeps ran, and why tests were skipped: one line for each reason."""
    runs, cases = map(sum, zip((0, 0), *COUNTS.values(), strict=True))
    if runs < cases:
        line = f"sampled: {runs:,} of {cases:,} cases of sweeps; make test-full runs all"
        terminalreporter.write_line(line)
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped: {count} ({reason})")
