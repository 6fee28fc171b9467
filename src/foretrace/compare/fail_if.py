"""`compare --fail-if`: a prediction that must not hold of B; `a` is A.

    gpu.time > 1.05 * a.gpu.time      B's GPU time is more than 1.05 times A's
    kernels > a.kernels + 4           in one step or call at least
    step.time > 2.5 ms
    step.time > 1.05 * a.step.time    of two jobs, too; also exposed, wait, compute, idle
    best > 1.05 * a.best              of two results of `try`; also untouched, lost

A condition is met where it holds in one step, not only where it holds in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from foretrace.base.errors import UsageError
from foretrace.check.evidence import Evidence
from foretrace.check.jobs import JOB, TRIES, JobJudge, TriesJudge
from foretrace.check.judging import Judge
from foretrace.check.language import Prediction, Reads, Scope, Signed, Unknown, WrongText
from foretrace.check.marking import Marker, read
from foretrace.check.windows import NoSuchPlace
from foretrace.compare.tries import LOST, CompareTriesDocument
from foretrace.compare.verdict import Comparison
from foretrace.jobs.documents import JobDocument

_KNOWN: dict[str, Mapping[str, tuple[str, Reads]] | None] = {
    "traces": None,  # those of a trace
    "jobs": JOB,
    "tries": TRIES,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a condition holds, and what was measured."""

    condition: str
    met: bool
    text: str


def condition(text: str, of: str = "traces") -> Prediction:
    """Read one condition on two traces, jobs or tries; the error has a caret below the place."""
    try:
        return read(text, _KNOWN[of])
    except WrongText as wrong:
        shown, caret = wrong.marked
        raise UsageError(f"--fail-if cannot be read: {wrong}\n  {shown}\n  {caret}") from None


def fitting(texts: Sequence[str], of: str, place: str) -> list[Prediction]:
    """Of a file's conditions those that are about two traces, jobs or tries; one that is about none
    is refused, with its place.
    """
    found = []
    for text in texts:
        kinds: dict[str, Prediction] = {}
        for kind in _KNOWN:
            with suppress(UsageError):
                kinds[kind] = condition(text, kind)
        if not kinds:
            example = "write a condition as `gpu.time > 1.05 * a.gpu.time`"
            raise UsageError(f"{place}: cannot read {text!r}; {example}")
        found += [kinds[of]] if of in kinds else []
    return found


def outcome(given: Prediction, judge: Judge[Any]) -> Outcome:
    """Judge a condition; `UsageError` where it cannot be decided."""
    turned = replace(given, node=Signed(0, "not", given.node))
    try:
        verdict = judge.verdict(turned)
    except (WrongText, NoSuchPlace, Unknown) as problem:
        raise UsageError(f"--fail-if {given.text!r} cannot be decided: {problem}") from None
    if verdict.verdict == "unknown":
        raise UsageError(f"--fail-if {given.text!r} cannot be decided: {verdict.why}")
    return Outcome(given.text, verdict.verdict == "miss", f"measured {verdict.measured}")


def of_traces(given: Sequence[Prediction], found: Comparison) -> list[Outcome]:
    """What each condition is in a comparison of traces, also of more than two; without a place it
    is about what the comparison repeats.
    """
    outcomes = []
    for each in (found, *found.others):
        judge = Marker(Evidence(each.b.trace), Evidence(each.a.trace))
        place = Scope("region", each.unit.name) if each.unit.kind == "region" else Scope()
        for one in given:
            outcomes.append(outcome(one if one.scope.kind else replace(one, scope=place), judge))
    return outcomes


def of_jobs(given: Sequence[Prediction], a: JobDocument, b: JobDocument) -> list[Outcome]:
    """What each condition is of two jobs."""
    return [outcome(one, JobJudge(b, a)) for one in given]


def of_tries(given: Sequence[Prediction], found: CompareTriesDocument) -> list[Outcome]:
    """What each condition is of two results of `try`."""
    lost = sum(fix.answer == LOST for fix in found.fixes)
    sides = [
        {"untouched": found.untouched_ns.b, "best": found.best_ns.b, "lost": lost},
        {"untouched": found.untouched_ns.a, "best": found.best_ns.a, "lost": 0},
    ]
    judge = TriesJudge(*sides)
    return [outcome(one, judge) for one in given]
