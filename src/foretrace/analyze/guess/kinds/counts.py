"""How many there are: kernels, one role, one op, memcpys, launches, syncs, host calls, steps.

Counts are whole numbers. A count of GPU operations is exact only while every launch has its GPU
event; where some are missing, a prediction that they could change is unknown.
"""

from __future__ import annotations

from foretrace.analyze.guess.amounts import EQUALS, Amount, Compare
from foretrace.analyze.guess.kinds import (
    GuessKind,
    Measurement,
    Query,
    comparison,
    from_selection,
    per_window,
)
from foretrace.analyze.guess.selection import select
from foretrace.analyze.guess.windows import Window
from foretrace.base.units import count_text


def _count(window: Window, query: Query) -> Measurement:
    compare: Compare = query.args.get("compare", EQUALS)
    found = select(window, query.what)
    items, low = found.sure + found.maybe, len(found.sure)
    high = float("inf") if found.lost or found.gap else len(items)
    verdict = compare.verdict(low, high, query.args.get("number", Amount("0", 0)))
    measured = count_text(low) + ("" if low == high else " or more")
    why = found.why(query.what) if verdict == "unknown" else ""
    return from_selection(found, verdict, measured, why, items)


KIND = GuessKind(
    "counts",
    10,
    (
        "{what:selector} {compare:compare} {number:count}",
        "[uses|use] [{compare:phrase}] {number:count} {what:selector}",
        "[uses|use] no {what:selector}",
    ),
    per_window(_count),
    expected=lambda args: comparison(args) or "== 0",
)
