"""`--fail-if`: a condition on the comparison that turns it into a test.

    gpu > 1.05x        B's GPU time is more than 1.05 times A's
    kernels > 4        B launches more than four kernels per unit
    wall > 2.5ms       B's wall time is more than 2.5 ms per unit

The stated threshold alone decides; the message says when the difference lies inside the noise.
Whoever wants slack puts it into the threshold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.comparison.measure import Change
from foretrace.errors import UsageError
from foretrace.units import count_text, percent_text, ratio_text, time_text

if TYPE_CHECKING:
    from foretrace.comparison.comparison import Comparison

TIMES = ("gpu", "cpu", "wall", "idle")
COUNTS = ("kernels", "memcpys", "launches")
COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_WORD = re.compile(r"[<>=!]+|[^\s<>=!]+")
_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([a-z]*)")


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: `unit` is `x` for a ratio B/A, a time unit, or empty for a count."""

    text: str
    quantity: str
    sign: str
    number: float
    unit: str

    def check(self, found: Comparison) -> Outcome:
        value = _measured(found, self.quantity)
        measured = _ratio(value) if self.unit == "x" else value.b
        if measured is None:
            raise UsageError(
                f"--fail-if {self.text!r} cannot be decided: {self.quantity} is not recorded in "
                "both traces"
            )
        met = COMPARE[self.sign](measured, self.number * UNITS.get(self.unit, 1.0))
        return Outcome(self, met, f"{self.quantity} is {_shown(value, self)}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a condition holds, and the words for it."""

    gate: Gate
    met: bool
    text: str


def parse_gate(text: str) -> Gate:
    """Read one condition; the error shows the word that is wrong."""
    words = [(match.group(), match.start()) for match in _WORD.finditer(text)]
    if not words or words[0][0] not in TIMES + COUNTS:
        raise _wrong(text, words, 0, f"expected one of {', '.join(TIMES + COUNTS)}")
    if len(words) < 2 or words[1][0] not in COMPARE:
        raise _wrong(text, words, 1, f"expected one of {' '.join(COMPARE)}")
    quantity = words[0][0]
    allowed = ("x", *UNITS) if quantity in TIMES else ("x", "")
    match = _NUMBER.fullmatch(words[2][0]) if len(words) > 2 else None
    if match is None or match[2] not in allowed:
        other = "a time such as 250us" if quantity in TIMES else "a count"
        raise _wrong(text, words, 2, f"expected a ratio such as 1.05x, or {other}")
    if len(words) > 3:
        raise _wrong(text, words, 3, "expected nothing more")
    return Gate(text, quantity, words[1][0], float(match[1]), match[2])


def _wrong(text: str, words: list[tuple[str, int]], at: int, expected: str) -> UsageError:
    word, start = words[at] if at < len(words) else ("", len(text) + 1)
    return UsageError(
        f"--fail-if cannot be read: {expected}\n  {text}\n  {' ' * start}{'^' * max(len(word), 1)}"
    )


def _measured(found: Comparison, quantity: str) -> Change:
    if quantity in TIMES:
        value: Change = getattr(found, f"{quantity}_ns")
        return value
    a, b = (
        (len(side.kernels) if quantity == "kernels" else getattr(side, quantity))
        for side in (found.a, found.b)
    )
    return Change(a, b, 0.0)


def _ratio(value: Change) -> float | None:
    """As `Change.ratio`, but something that came from nothing is infinitely more."""
    return float("inf") if value.a == 0 and value.b else value.ratio


def _shown(value: Change, gate: Gate) -> str:
    text = count_text if gate.quantity in COUNTS else time_text
    ratio = "new" if value.a == 0 and value.b else ratio_text(value.ratio)
    if gate.quantity in COUNTS:
        return f"{text(value.a)} in A and {text(value.b)} in B ({ratio})"
    noise = (
        "one repeat: noise not known"
        if value.noise is None
        else f"noise {percent_text(value.noise)}"
    )
    inside = ", inside the noise" if value.beyond is False else ""
    return f"{text(value.a)} in A and {text(value.b)} in B ({ratio}; {noise}{inside})"
