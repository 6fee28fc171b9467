"""`compare --fail-if`: a condition on a comparison, in the language of predictions.

    gpu > 1.05x               B's GPU time is more than 1.05 times A's
    kernels > 4               B launches more than four kernels per unit
    wall is over 2.5 ms       B's wall time is more than 2.5 ms per unit
    gpu time > 1.05x of A     the first condition in full

The threshold alone decides, without the tolerance of its digits; state one with `+- 5%`. The
message says when the difference is within the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.comparison.comparison import Comparison
from foretrace.comparison.measure import Change
from foretrace.errors import UsageError
from foretrace.guess.amounts import Amount, Compare
from foretrace.guess.grammar import match
from foretrace.guess.tokens import GuessError, split
from foretrace.units import count_text, percent_text, ratio_text, time_text

TIMES = ("gpu", "cpu", "wall", "idle")
COUNTS = ("kernels", "memcpys", "launches")
_SUBJECTS = {"|".join(TIMES) + " [time]": "{limit:time}", "|".join(COUNTS): "{limit:number}"}
# The grammar remembers a choice of words under its first word: `gpu` or `kernels`.
_PATTERNS = [
    (subject.split("|")[0], f"{subject} {{compare:compare}} {threshold}")
    for subject, limit in _SUBJECTS.items()
    for threshold in ("{ratio:ratio}", "{ratio:ratio} of {other:other}", limit)
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a condition holds, and the words for it."""

    gate: Gate
    met: bool
    text: str


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: `limit` is a ratio B/A (`is_ratio`), a time in ns, or a count."""

    text: str
    quantity: str
    compare: Compare
    limit: Amount
    is_ratio: bool

    def check(self, found: Comparison) -> Outcome:
        """Judge the comparison; `UsageError` when it does not have the quantity."""
        a, b, noise = _sides(found, self.quantity)
        ratio = _ratio(a, b)
        measured = ratio if self.is_ratio else b
        if measured is None:
            problem = f"{self.quantity} is not recorded in both traces"
            raise UsageError(f"--fail-if {self.text!r} cannot be decided: {problem}")
        met = self.compare.of(measured, self.limit) == "hit"
        shown = count_text if self.quantity in COUNTS else time_text
        change = ("new" if a == 0 and b else ratio_text(ratio)) + noise
        text = f"{self.quantity} is {shown(a)} in A and {shown(b)} in B ({change})"
        return Outcome(self, met, text)


def parse_gate(text: str) -> Gate:
    """Parse one condition; the error points at the wrong word."""
    try:
        first, args = match(text, split(text), _PATTERNS)
    except GuessError as error:
        raise error.within("--fail-if cannot be parsed") from None
    limit: Amount = args["ratio"] if "ratio" in args else args["limit"]
    return Gate(text, args[first], args["compare"], limit.exact, "ratio" in args)


def _ratio(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    # something where there was nothing is infinitely more
    return b / a if a else float("inf") if b else 1.0


def _sides(found: Comparison, quantity: str) -> tuple[float | None, float | None, str]:
    """The quantity in A and in B, and the words for the noise of a time."""
    if quantity in COUNTS:
        counts = [getattr(side, quantity) for side in (found.a, found.b)]
        a, b = map(len, counts) if quantity == "kernels" else counts
        return a, b, ""
    value: Change = getattr(found, f"{quantity}_ns")
    if value.noise is None:
        return value.a, value.b, "; one repeat: noise unknown"
    within = ", within the noise" if value.beyond is False else ""
    return value.a, value.b, f"; noise {percent_text(value.noise)}{within}"
