"""Marks predictions on a snapshot of the allocator, which has memory and no events."""

from __future__ import annotations

import os
from collections.abc import Iterable

from foretrace.analyze.guess import marking
from foretrace.analyze.guess.kinds import Query
from foretrace.analyze.guess.marking import Guess, parse_or_error
from foretrace.analyze.guess.windows import Unknown
from foretrace.model.allocator.view import MemoryView, is_snapshot, view_of
from foretrace.model.trace import Trace
from foretrace.schema.finding import Verdict, Verdicts

OF_A_TRACE = "a snapshot of the allocator has memory alone: check this on the trace"


def check(
    trace: Trace | str | os.PathLike[str],
    guesses: str | Guess | Verdict | Iterable[str | Guess | Verdict],
    against: Trace | str | os.PathLike[str] | None = None,
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss, unknown or error, with what was measured.

    A trace may be a path or the name of a recording; `against` is the one that predictions call
    `A`. Missing data is unknown, never a hit. A text that cannot be parsed, or a region that is not
    in the trace, is an error and stops no other. A snapshot of the allocator is marked as well.
    """
    if isinstance(trace, Trace) or not is_snapshot(trace):
        return marking.check(trace, guesses, against)
    listed = [guesses] if isinstance(guesses, str | Guess | Verdict) else guesses
    return check_snapshot(view_of(os.fspath(trace)), listed)


def check_snapshot(view: MemoryView, guesses: Iterable[str | Guess | Verdict]) -> Verdicts:
    """Mark each prediction: hit, miss, unknown or error."""
    parsed = (parse_or_error(guess) if isinstance(guess, str) else guess for guess in guesses)
    return Verdicts(guess if isinstance(guess, Verdict) else _mark(guess, view) for guess in parsed)


def _mark(guess: Guess, view: MemoryView) -> Verdict:
    said = (guess.text, "unknown", "", guess.expected)
    if guess.parts or guess.kind.held is None or guess.scope.kind != "trace":
        return Verdict(*said, OF_A_TRACE, reason=guess.reason)
    try:
        found = guess.kind.held(Query(guess.args, guess.scope, []), view)
    except Unknown as missing:
        return Verdict(*said, str(missing), reason=guess.reason)
    facts = (guess.text, found.verdict, found.measured, guess.expected, found.why)
    return Verdict(*facts, reason=guess.reason)
