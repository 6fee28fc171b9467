"""When a fix is a gain, and when results stayed the same. Needs no torch.

Each pair of blocks with a fix off and on gives a ratio. Of two equal sides either is as likely to
be the faster one in a quiet pair, so the choice of the quieter half favours neither. The interval
of the median holds the true ratio 49 times of 50 whatever the distribution (docs/try.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from foretrace.compare.measure import middle
from foretrace.record.tries.rounds import Kept

LEAST = 1.02
NARROW = 1.03  # an interval whose ends differ by less needs no more pairs
MANY = 10  # pairs, of which the quieter half counts
NOISES = 3  # differences up to so many times those of two untouched runs are noise


class Gain(Struct, frozen=True):
    """How many times faster, with the interval, and from how many pairs."""

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def is_gain(self) -> bool:
        """Whether it is faster beyond doubt."""
        return self.low > 1 and self.ratio >= LEAST

    @property
    def why_not(self) -> str:
        """Why it is no gain, where the ratio alone does not say so: the interval begins below 1."""
        if self.high < 1:
            return "slower"
        return f"{self.low:.2f}x to {self.high:.2f}x" if self.ratio >= LEAST else ""


def gain(pairs: Sequence[tuple[float, float]]) -> Gain:
    """The ratio of the times of pairs (off, on), as a median with an interval."""
    return Gain(*middle([off / on for off, on in quieter(pairs)]), len(pairs))


def quieter(pairs: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """The half of the pairs in which the machine did least besides; all where they are few."""
    return pairs if len(pairs) < MANY else sorted(pairs, key=sum)[: (len(pairs) + 1) // 2]


def is_narrow(pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether the interval of the ratio is narrow enough."""
    found = gain(pairs)
    return found.high <= NARROW * found.low


def spread(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The interval of the time of equal sides, as shares of its median."""
    median, low, high = middle([ns for pair in quieter(pairs) for ns in pair])
    return low / median, high / median


def apart(off: Sequence[float], on: Sequence[float]) -> list[tuple[float, float]]:
    """Pairs of times of processes that have no order: the slowest with the fix beside the fastest
    without it comes first, so that a gain needs every process with it to be faster than every one
    without. Of four and four equal ones that happens once in 70.
    """
    return list(zip(sorted(off), sorted(on, reverse=True), strict=True))


def difference(one: Kept, other: Kept) -> float | None:
    """The largest difference of the losses, as a share; of the outputs where nothing is learnt."""
    if one.losses and other.losses:
        both = zip(one.losses, other.losses, strict=False)
        return max(_apart([first], [second]) for first, second in both)
    outputs = [each for each in zip(one.outputs, other.outputs, strict=False) if each[0]]
    return max((_apart(first, second) for first, second in outputs), default=None)


def is_same(found: float | None, noise: float | None, tolerance: float) -> bool | None:
    """Whether a difference is within the tolerance or the noise; None where nothing is known."""
    if found is None:
        return None
    return found <= max(tolerance, NOISES * (noise or 0))


def _apart(first: Sequence[float], second: Sequence[float]) -> float:
    """The norm of the difference over the norm of the first."""
    if len(first) != len(second):
        return float("inf")
    apart = sqrt(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))
    if apart != apart:  # NaN on one side only is a difference
        return 0.0 if all(a != a for a in first) and all(b != b for b in second) else float("inf")
    size = sqrt(sum(a * a for a in first))
    return apart / size if size else apart
