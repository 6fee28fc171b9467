"""How often `foretrace history` names a change where there is none, and finds one where there is.

    python benchmarks/history_rate.py 400        # histories of each kind; takes minutes

Six kinds of noise between runs, histories of 8 to 100 commits.
"""

from __future__ import annotations

import sys

import numpy as np

from foretrace.compare.history import HistoryEntry, history

DRAW = np.random.default_rng(7)
NOISE = {
    "none": lambda: 1.0,
    "normal 3%": lambda: 1 + 0.03 * DRAW.standard_normal(),
    "lognormal 10%": lambda: np.exp(0.1 * DRAW.standard_normal()),
    "two machines": lambda: DRAW.choice([1, 1.3]) * (1 + 0.01 * DRAW.standard_normal()),
    "outliers": lambda: (1 + 0.01 * DRAW.standard_normal()) * (3 if DRAW.random() < 0.1 else 1),
    "Cauchy": lambda: max(0.1, 1 + 0.01 * DRAW.standard_cauchy()),
}
CHANGES = ((8, 4, 1.1), (12, 6, 1.05), (20, 10, 1.05), (20, 15, 1.05), (40, 30, 1.03))


def made(kind: str, count: int, at: int = 0, ratio: float = 1.0) -> list[HistoryEntry]:
    """One history; from commit `at` on a step takes `ratio` times as long."""
    entries = []
    for number in range(count):
        base = 1e6 * NOISE[kind]() * (ratio if number >= at else 1)
        times = [float(base * (1 + 0.01 * abs(each))) for each in DRAW.standard_normal(10)]
        date = f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00Z"
        name = f"c{number:03}"
        entries.append(
            HistoryEntry(name, date, times, "no profiler", "step", 4, [], None, "H200", "2.9")
        )
    return entries


def main(histories: int) -> None:
    """Print the share of histories with a false change, and that of changes found."""
    for kind in NOISE:
        for count in (8, 12, 20, 40, 100):
            found = [history(made(kind, count)) for _ in range(histories)]
            false = np.mean([bool(each.changes) for each in found])
            suspected = np.mean([each.suspect is not None for each in found])
            print(f"{kind:14} {count:4} commits: false {false:.1%}, suspected {suspected:.1%}")
    for count, at, ratio in CHANGES:
        runs = (history(made("normal 3%", count, at, ratio)) for _ in range(histories))
        hits = np.mean([any(one.what == "step time" for one in each.changes) for each in runs])
        print(f"{ratio}x from commit {at} of {count}, normal 3%: found {hits:.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
