"""How the tool's own predictions fared: the fixes that B has and A lacks, predicted and measured.

A fix was made where A has its cause and B does not. The prediction is that for A with all fixes
that were made. What counts as measured is the step of B without the profiler: from its run record,
or as its own replay gives it.
"""

from __future__ import annotations

from foretrace.base.units import time_text
from foretrace.compare.documents import MarkedFix
from foretrace.look.fixes import FixPrediction, Predicted, fixes

CLOSE = 0.3  # of the measured time: a prediction that is nearer is a hit


def marked(before: Predicted | None, after: Predicted | None) -> MarkedFix | None:
    """The prediction for what changed; None where no known fix was made."""
    if before is None or after is None:
        return None
    found = made_between(before.fixes, after)
    # what compiled code already does is no second fix
    made = [
        each
        for each in found
        if not any(other is not each and before.contains(other, each) for other in found)
    ]
    if not made:
        return None
    expected, (low, high) = before.together(made), before.interval(made)
    hit = low <= after.now_ns <= high or abs(expected / after.now_ns - 1) <= CLOSE
    names, orders = [each.fix for each in made], [each.proposal.order for each in made]
    return MarkedFix(names, orders, before.now_ns, expected, low, high, after.now_ns, hit)


def made_between(before: list[FixPrediction], after: Predicted) -> list[FixPrediction]:
    """Those of the fixes that the other step shows to be made."""
    shown, left = {fix.name: fix.made for fix in fixes()}, {each.fix for each in after.every}
    return [
        each
        for each in before
        if each.fix not in left and ((test := shown[each.fix]) is None or test(after.step))
    ]


def mark_text(mark: MarkedFix) -> str:
    """`boolean_mask: about 1.30 ms (1.0 to 1.9) predicted, 1.20 ms measured: hit`."""
    span = f"{time_text(mark.low_ns)} to {time_text(mark.high_ns)}"
    said = f"about {time_text(mark.predicted_ns)} ({span}) after {', '.join(mark.fixes)}"
    return f"{said}; measured {time_text(mark.measured_ns)}: {'hit' if mark.hit else 'miss'}"
