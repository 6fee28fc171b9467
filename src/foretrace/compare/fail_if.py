"""`compare --fail-if`: a condition on a comparison, in the language of predictions.

    gpu > 1.05x               B's GPU time is more than 1.05 times A's
    kernels > 4               B launches more than four kernels per unit
    ops > 1x                  B calls more ops than A, on a CPU too
    wall is over 2.5 ms       B's wall time is more than 2.5 ms per unit
    gpu time > 1.05x of A     the first condition in full

Between two jobs the quantities are times per step: `step > 1.05x`, `exposed > 3 ms`, and also
compute, wait and idle. Between two results of `foretrace try` they are the times per step of the
script `untouched` and of the `best`, and how many fixes are `lost`: `best > 1.05x`, `lost > 0`.

The threshold alone decides, without the tolerance of its digits; state one with `+- 5%`. The
message says when the difference is within the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.base.units import count_text, percent_text, ratio_text, time_text
from foretrace.check.grammar import Pattern, items, match
from foretrace.check.words import Amount, Compare, GuessError, split

TIMES = ("gpu", "cpu", "wall", "idle")
COUNTS = ("kernels", "memcpys", "launches", "ops")
LOST = "lost"
JOB_TIMES = ("step", "compute", "exposed", "wait", "idle")
_SUBJECTS = {
    "traces": {"|".join(TIMES) + " [time]": "{limit:time}", "|".join(COUNTS): "{limit:number}"},
    "jobs": {"|".join(JOB_TIMES) + " [time|comms]": "{limit:time}"},
    "tries": {"untouched|best [time]": "{limit:time}", LOST: "{limit:number}"},
}


def _patterns(subjects: dict[str, str]) -> list[tuple[str, Pattern]]:
    """The grammar remembers a choice of words under its first word: `gpu` or `kernels`."""
    return [
        (subject.split("|")[0], items(f"{subject} {{compare:compare}} {threshold}"))
        for subject, limit in subjects.items()
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
    """One condition on `traces`, `jobs` or `tries`: `limit` is a ratio B/A (`is_ratio`), a time in
    ns, or a count.
    """

    text: str
    of: str
    quantity: str
    compare: Compare
    limit: Amount
    is_ratio: bool

    def check(self, found: Any) -> Outcome:
        """Judge a comparison; `UsageError` when it does not have the quantity."""
        a, b, noise = _SIDES[self.of](found, self.quantity)
        ratio = _ratio(a, b)
        measured = ratio if self.is_ratio else b
        if measured is None:
            problem = f"{self.quantity} is not recorded in both {self.of}"
            raise UsageError(f"--fail-if {self.text!r} cannot be decided: {problem}")
        met = self.compare.of(measured, self.limit) == "hit"
        shown = count_text if self.quantity in (*COUNTS, LOST) else time_text
        change = ("new" if a == 0 and b else ratio_text(ratio)) + noise
        text = f"{self.quantity} is {shown(a)} in A and {shown(b)} in B ({change})"
        return Outcome(self, met, text)


def parse_gate(text: str, of: str = "traces") -> Gate:
    """Parse one condition on two traces, jobs or tries; the error points at the wrong word."""
    try:
        first, args = match(text, split(text), _patterns(_SUBJECTS[of]))
    except GuessError as error:
        raise error.suggesting("", "--fail-if cannot be parsed") from None
    limit: Amount = args["ratio"] if "ratio" in args else args["limit"]
    return Gate(text, of, args[first], args["compare"], limit.exact, "ratio" in args)


def fitting_gates(texts: Sequence[str], of: str, place: str) -> list[Gate]:
    """Of a file's conditions those that are about two traces, jobs or tries; one that is about none
    is refused, with its place.
    """
    found = []
    for text in texts:
        gates: dict[str, Gate] = {}
        for kind in _SUBJECTS:
            with suppress(UsageError):
                gates[kind] = parse_gate(text, kind)
        if not gates:
            every = ", ".join(
                dict.fromkeys((*TIMES, *COUNTS, *JOB_TIMES, "untouched", "best", LOST))
            )
            raise UsageError(f"{place}: cannot parse {text!r}; write QUANTITY > LIMIT, of {every}")
        found += [gates[of]] if of in gates else []
    return found


def _ratio(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    # something where there was nothing is infinitely more
    return b / a if a else float("inf") if b else 1.0


def _of_tries(found: Any, quantity: str) -> tuple[float | None, float | None, str]:
    if quantity == LOST:
        return 0, sum(fix.answer == LOST for fix in found.fixes), ""
    change = getattr(found, f"{quantity}_ns")
    return change.a, change.b, _noise(change) if change.noise is not None else ""


def _of_jobs(found: Any, quantity: str) -> tuple[float | None, float | None, str]:
    time = next(each for each in found.times if each.what == quantity)
    return time.a, time.b, _noise(time)


def _of_traces(found: Any, quantity: str) -> tuple[float | None, float | None, str]:
    if quantity == "ops":
        a, b = (sum(op.calls for op in side.ops.values()) for side in (found.a, found.b))
        return a, b, ""
    if quantity in COUNTS:
        counts = [getattr(side, quantity) for side in (found.a, found.b)]
        a, b = map(len, counts) if quantity == "kernels" else counts
        # Two recordings of a CPU would pass for ever.
        no_gpu = not (a or b) and found.gpu_ns.a is None and found.gpu_ns.b is None
        return (None, None, "") if no_gpu else (a, b, "")
    value = getattr(found, f"{quantity}_ns")
    return value.a, value.b, _noise(value)


# The quantity in A and in B, and the words for the noise of a time.
_SIDES = {"traces": _of_traces, "jobs": _of_jobs, "tries": _of_tries}


def _noise(value: Any) -> str:
    if value.noise is None:
        return "; one repeat: noise unknown"
    within = ", within the noise" if value.beyond is False else ""
    return f"; noise {percent_text(value.noise)}{within}"
