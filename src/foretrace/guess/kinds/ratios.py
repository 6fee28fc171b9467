"""One quantity against another: of the other trace (`A`, given with --against), or of other things
of the same trace.

`gpu time < 0.9x of A` compares medians over the same place in both traces.
`last gemm time < 0.95x of first gemm` stays within this one. A thing without a quantity is counted:
`kernels < A`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from foretrace.guess.amounts import Amount, Compare
from foretrace.guess.measures import Measure, certain
from foretrace.guess.reading import Ask, Kind, Reading
from foretrace.guess.view import Unknown
from foretrace.units import ratio_text


def measure(ask: Ask) -> Reading:
    left: Measure = ask.args["left"]
    mine = left.median(ask.views)
    if "right" in ask.args:
        right: Measure = ask.args["right"]
        right = (
            replace(right, name=left.name, text=f"{right.text} {left.name}")
            if right.name == "count"
            else right
        )
        theirs = right.median(ask.views)
    else:
        right, theirs = replace(left, text="A"), left.median(ask.need_others())
    verdict = _difference(ask, mine, theirs) if "count" in ask.args else _ratio(ask, mine, theirs)
    ratio = f" ({ratio_text(mine / theirs)})" if theirs else ""
    view = ask.views[0]
    rows = (
        certain(view, left.thing).sure if left.thing and left.thing.on_gpu else view.rows.tolist()
    )
    return Reading(
        verdict,
        f"{left.shown(mine)} against {right.shown(theirs)} of {right.text}{ratio}",
        view=view,
        rows=rows,
    )


def expected(args: Mapping[str, Any]) -> str:
    """`< 0.9x of A`, `< A`, `1 fewer than A`."""
    other = args["right"].text if "right" in args else "A"
    if "count" in args:
        return f"{args['count'].text} {'fewer' if 'fewer' in args else 'more'} than {other}"
    return f"{args['compare'].symbol} " + (
        f"{args['ratio'].text} of {other}" if "ratio" in args else other
    )


def _ratio(ask: Ask, mine: float, theirs: float) -> str:
    limit: Amount = ask.args.get("ratio", Amount("1x", 1.0))
    compare: Compare = ask.args["compare"]
    if not theirs:
        if "ratio" in ask.args:
            raise Unknown("the other quantity is zero: there is no ratio")
        return compare.verdict(mine, mine, Amount("0", 0))
    return compare.verdict(mine / theirs, mine / theirs, limit)


def _difference(ask: Ask, mine: float, theirs: float) -> str:
    step = -ask.args["count"].value if "fewer" in ask.args else ask.args["count"].value
    return "hit" if mine - theirs == step else "miss"


KIND = Kind(
    name="ratios",
    order=80,
    patterns=(
        "{left:measure} {compare:compare} {ratio:ratio} of {other:other}",
        "{left:measure} {compare:compare} {ratio:ratio} of {right:measure}",
        "{left:measure} {compare:compare} {other:other}",
        "{count:count} fewer {left:measure} than {other:other}",
        "{count:count} more {left:measure} than {other:other}",
    ),
    measure=measure,
    expected=expected,
    examples={
        "in mlp_fwd: gpu time < 0.9x of A": "at least 10% less GPU time than the other trace",
        "in mlp_fwd: cpu time > 1x of A": "the host works longer",
        "in mlp_fwd: last gemm time < 0.95x of first gemm": "down is faster than gate",
        "in mlp_fwd: pointwise time < 0.6x of A": "the pointwise kernels together",
        "in mlp_fwd: kernels < A": "fewer kernels than the other trace",
        "in mlp_fwd: 1 fewer kernels than A": "exactly one",
    },
)
