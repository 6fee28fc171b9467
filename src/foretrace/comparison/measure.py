"""One quantity in both traces: the medians over the repeats, their ratio, and the noise that the
repeats show.

The spread of one trace is the median distance of its repeats from their median (MAD), scaled to
what a standard deviation would be. One outlier, such as a cold first step, does not move it: with
three repeats the two that agree decide. It is never less than one tick of the clock that timed
them.

`noise` is the sum of the two spreads as a fraction of the larger median. A change is told only when
the medians lie further apart than that, 1 - smaller/larger > noise, which reads the same from both
ends. Of two programs that are alike, chance takes 16 in 100 beyond the noise with three repeats on
each side, 6 with five and fewer than 1 with ten (normal times, 200,000 trials): record more repeats
to trust small changes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# 1.4826 makes the MAD of normal values their standard deviation; for few values it falls short by
# these factors (Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of
# scale", 1992).
NORMAL = 1.4826
FEW = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


@dataclass(frozen=True, slots=True)
class Sample:
    """One quantity over the repeats of one trace; both None when it was not recorded, `spread` None
    with one repeat.
    """

    median: float | None
    spread: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One quantity in A and in B."""

    a: float | None
    b: float | None
    noise: float | None

    @property
    def ratio(self) -> float | None:
        """B over A; None when either is unknown or A is zero and B is not."""
        if self.a is None or self.b is None or (self.a == 0 and self.b != 0):
            return None
        return self.b / self.a if self.a else 1.0

    @property
    def beyond(self) -> bool | None:
        """Whether the change is larger than the noise; None when that cannot be told."""
        if self.a is None or self.b is None or self.noise is None:
            return None
        larger = max(self.a, self.b)
        return larger > 0 and 1 - min(self.a, self.b) / larger > self.noise

    @property
    def saved(self) -> float | None:
        """A less B."""
        return None if self.a is None or self.b is None else self.a - self.b


def sample(values: Sequence[float | None], tick: float) -> Sample:
    """The median and spread of one quantity; unknown when any repeat lacks it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Sample(None, None)
    middle = statistics.median(known)
    if len(known) < 2:
        return Sample(_whole(middle), None)
    distance = statistics.median(abs(value - middle) for value in known)
    scale = NORMAL * FEW.get(len(known), len(known) / (len(known) - 0.8))
    return Sample(_whole(middle), max(distance * scale, tick))


def measured(a: Sample, b: Sample) -> Measured:
    """Both samples side by side."""
    if a.median is None or b.median is None or a.spread is None or b.spread is None:
        return Measured(a.median, b.median, None)
    larger = max(a.median, b.median)
    return Measured(a.median, b.median, (a.spread + b.spread) / larger if larger else 0.0)


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value
