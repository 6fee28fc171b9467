"""How many there are: kernels, one role, one op, memcpys, launches, syncs, host calls, steps.

Counts are whole numbers. A count of GPU operations is exact only while every launch has its GPU
event; where some are missing, a prediction that they could change is unknown.
"""

from __future__ import annotations

from foretrace.guess.amounts import EQUALS, Amount, Compare
from foretrace.guess.kinds import GuessKind, Measurement, Query, comparison, for_each
from foretrace.guess.scope import Window
from foretrace.guess.selection import select
from foretrace.guess.selectors import Selector
from foretrace.units import count_text


def measure(query: Query) -> Measurement:
    """Judge `kernels == 5` and its other wordings."""
    return for_each(query, lambda window: _count(window, query))


def _count(window: Window, query: Query) -> Measurement:
    selector: Selector = query.args["what"]
    compare: Compare = query.args.get("compare", EQUALS)
    found = select(window, selector)
    items, low = found.sure + found.maybe, len(found.sure)
    high = float("inf") if found.lost or found.gap else len(items)
    verdict = compare.verdict(low, high, query.args.get("number", Amount("0", 0)))
    measured = count_text(low) + ("" if low == high else " or more")
    why = found.why(selector) if verdict == "unknown" else ""
    rows, events = (items, []) if found.on_gpu else ([], items)
    return Measurement(verdict, measured, why, rows=rows, events=events)


KIND = GuessKind(
    name="counts",
    order=10,
    patterns=(
        "{what:selector} {compare:compare} {number:count}",
        "[{compare:phrase}] {number:count} {what:selector}",
        "no {what:selector}",
    ),
    measure=measure,
    expected=lambda args: comparison(args) or "== 0",
)
