"""One quantity in both traces: the medians over the repeats, their ratio, and the noise.

The spread of one trace is the median distance of its repeats from their median (MAD), scaled to
what a standard deviation would be. One outlier, such as a cold first step, does not move it: with
three repeats the two that agree decide. It is never less than one tick of the clock.

`noise` is the sum of the two spreads as a fraction of the larger median. A change counts only when
the medians lie further apart than that: 1 - smaller/larger > noise, which reads the same from both
ends. With three repeats a side, identical programs are reported as different 16% of the time; with
five 6%, with ten less than 1% (normal times, 200,000 trials). Record more repeats to trust small
changes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from math import comb

from msgspec import Struct

from foretrace.schema.documents.compare import ChangeEntry

# 1.4826 makes the MAD of normal values their standard deviation; for few values it falls short by
# these factors (Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of
# scale", 1992).
NORMAL = 1.4826
FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


class Sample(Struct, frozen=True):
    """One quantity over the repeats of one trace; None if not recorded, `spread` also if once."""

    median: float | None = None
    spread: float | None = None


class Change(Struct, frozen=True):
    """One quantity in A and in B; `noise` is None when a side has no spread."""

    a: float | None
    b: float | None
    noise: float | None = None

    @property
    def ratio(self) -> float | None:
        """B over A; None when either is unknown or A is zero and B is not."""
        if self.a is None or self.b is None or (self.a == 0 and self.b != 0):
            return None
        return self.b / self.a if self.a else 1.0

    @property
    def beyond(self) -> bool | None:
        """Whether the change is larger than the noise; None when a time or the noise is unknown."""
        if self.a is None or self.b is None or self.noise is None:
            return None
        larger = max(self.a, self.b)
        return larger > 0 and 1 - min(self.a, self.b) / larger > self.noise

    @property
    def entry(self) -> ChangeEntry:
        """The change as documents have it."""
        return ChangeEntry(self.a, self.b, self.ratio, self.noise)

    @property
    def saved(self) -> float | None:
        """A less B."""
        return None if self.a is None or self.b is None else self.a - self.b


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


def measured(a: Sample, b: Sample) -> Change:
    """Both samples side by side."""
    if a.median is None or b.median is None or a.spread is None or b.spread is None:
        return Change(a.median, b.median)
    larger = max(a.median, b.median)
    return Change(a.median, b.median, (a.spread + b.spread) / larger if larger else 0.0)


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
