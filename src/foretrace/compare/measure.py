"""One quantity in both traces: the medians over the repeats, their ratio, and the noise.

`docs/compare.md` ("Noise") says how both are defined. Its shares of identical programs that are
reported as different are of normal times, 200,000 trials.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import comb

from msgspec import Struct

from foretrace.compare.documents import ChangeEntry

# 1.4826 makes the MAD of normal values their standard deviation; for few values it falls short by
# these factors (Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of
# scale", 1992).
NORMAL = 1.4826
FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


class Sample(Struct, frozen=True):
    """One quantity over the repeats of one trace; None if not recorded, `spread` also if once."""

    median: float | None = None
    spread: float | None = None


def change(a: float | None, b: float | None, noise: float | None = None) -> ChangeEntry:
    """One quantity in A and in B; no `noise` when a side has no spread."""
    if a is None or b is None or (a == 0 and b != 0):
        return ChangeEntry(a, b, None, noise)
    return ChangeEntry(a, b, b / a if a else 1.0, noise)


def sample(values: Sequence[float | None], tick: float) -> Sample:
    """The median and spread of one quantity; unknown when any repeat lacks it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Sample()
    median = statistics.median(known)
    middle = int(median) if float(median).is_integer() else median
    if len(known) < 2:
        return Sample(middle)
    distance = statistics.median(abs(value - middle) for value in known)
    scale = NORMAL * FEW.get(len(known), len(known) / (len(known) - 0.8))
    return Sample(middle, max(distance * scale, tick))


def measured(a: Sample, b: Sample) -> ChangeEntry:
    """Both samples side by side."""
    if a.median is None or b.median is None or a.spread is None or b.spread is None:
        return change(a.median, b.median)
    larger = max(a.median, b.median)
    return change(a.median, b.median, (a.spread + b.spread) / larger if larger else 0.0)


SURE = 0.98  # how often the interval of a median holds the true one; of six values or fewer, less


def middle(values: Sequence[float]) -> tuple[float, float, float]:
    """The median with its interval, which leaves out the outermost values."""
    ordered = sorted(values)
    drop = _left_out(len(ordered))
    return statistics.median(ordered), ordered[drop], ordered[-1 - drop]


def _left_out(count: int) -> int:
    """How many values to leave out at each end: the median is inside with `SURE`."""
    outside = 0.0
    for drop in range(count):
        outside += 2 * comb(count, drop) / 2**count
        if outside > 1 - SURE:
            return max(drop - 1, 0)
    return 0
