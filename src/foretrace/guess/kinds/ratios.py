"""One quantity against another: of the other trace (`A`, given with --against), or of something
else in the same trace.

`gpu time < 0.9x of A` compares medians over the same scope in both traces.
`last gemm time < 0.95x of first gemm` stays within this one. A selector without a quantity is
counted: `kernels < A`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from foretrace.guess.amounts import Amount, Compare
from foretrace.guess.kinds import GuessKind, Measurement, Query
from foretrace.guess.measures import Measure
from foretrace.guess.scope import Unknown
from foretrace.units import ratio_text


def measure(query: Query) -> Measurement:
    """Judge `LEFT < 0.9x of RIGHT`, `LEFT < A` or `1 fewer LEFT than A`."""
    left: Measure = query.args["left"]
    mine = left.median(query.windows)
    if "right" in query.args:
        right: Measure = query.args["right"]
        if right.name == "count":
            right = replace(right, name=left.name, text=f"{right.text} {left.name}")
        theirs = right.median(query.windows)
    else:
        right, theirs = replace(left, text="A"), left.median(query.need_others())
    verdict = _verdict(query, mine, theirs)
    ratio = f" ({ratio_text(mine / theirs)})" if theirs else ""
    measured = f"{left.shown(mine)}, {right.text}: {right.shown(theirs)}{ratio}"
    window = query.windows[0]
    return Measurement(verdict, measured, window=window, rows=left.rows(window))


def expected(args: Mapping[str, Any]) -> str:
    """`< 0.9x of A`, `< A`, `1 fewer than A`."""
    other = args["right"].text if "right" in args else "A"
    if "count" in args:
        return f"{args['count'].text} {'fewer' if 'fewer' in args else 'more'} than {other}"
    ratio = f"{args['ratio'].text} of " if "ratio" in args else ""
    return f"{args['compare'].symbol} {ratio}{other}"


def _verdict(query: Query, mine: float, theirs: float) -> str:
    if "count" in query.args:
        step = query.args["count"].value
        return "hit" if mine - theirs == (-step if "fewer" in query.args else step) else "miss"
    compare: Compare = query.args["compare"]
    if theirs:
        return compare.of(mine / theirs, query.args.get("ratio", Amount("1x", 1.0)))
    if "ratio" in query.args:
        raise Unknown("the other quantity is zero: there is no ratio")
    return compare.of(mine, Amount("0", 0))


KIND = GuessKind(
    "ratios",
    80,
    (
        "{left:measure} {compare:compare} {ratio:ratio} of {other:other}",
        "{left:measure} {compare:compare} {ratio:ratio} of {right:measure}",
        "{left:measure} {compare:compare} {other:other}",
        "{count:count} fewer {left:measure} than {other:other}",
        "{count:count} more {left:measure} than {other:other}",
    ),
    measure,
    expected=expected,
)
