"""Parses predictions about a job and marks them on its document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from foretrace.analyze.guess import job_kinds, marking
from foretrace.analyze.guess.grammar import match
from foretrace.analyze.guess.job_kinds import JobKind, JobQuery
from foretrace.analyze.guess.tokens import GuessError, split
from foretrace.analyze.guess.windows import NoSuchPlace, Unknown
from foretrace.base.errors import UsageError
from foretrace.schema.documents.job import JobDocument
from foretrace.schema.verdict import Verdict, Verdicts

EXAMPLE = "every rank: exposed comms < 10%"
OF_A_TRACE = "this is a prediction about one trace: check it on the file of a rank"


@dataclass(frozen=True, slots=True)
class JobGuess:
    """One prediction about a job: its text, why its author expects it, what was parsed from it."""

    text: str
    reason: str
    kind: JobKind
    args: Mapping[str, Any]


def parse_job(text: str, reason: str = "") -> JobGuess:
    """Parse one prediction about a job; `GuessError` points at the wrong word."""
    tokens = [token for token in split(text.rstrip(" ?.!")) if token.key != "the"]
    try:
        kind, args = match(text, tokens, job_kinds.patterns())
    except GuessError as error:
        if _reads(text):
            raise UsageError(OF_A_TRACE) from None
        raise error.suggesting(EXAMPLE) from None
    return JobGuess(text, reason, kind, args)


def _reads(text: str) -> bool:
    try:
        marking.parse(text)
    except UsageError:
        return False
    return True


def check_job(found: JobDocument, guesses: Iterable[str | JobGuess | Verdict]) -> Verdicts:
    """Mark each prediction on the document of a job: hit, miss, unknown or error."""
    parsed = (parse_or_error(guess) if isinstance(guess, str) else guess for guess in guesses)
    return Verdicts(
        guess if isinstance(guess, Verdict) else _mark(guess, found) for guess in parsed
    )


def parse_or_error(text: str, reason: str = "") -> JobGuess | Verdict:
    """Parse one prediction; one that cannot be parsed is a verdict `error` and stops no other."""
    return marking.or_error(parse_job, text, reason)


def _mark(guess: JobGuess, found: JobDocument) -> Verdict:
    expected = guess.kind.expected(guess.args) or guess.text
    try:
        measured = guess.kind.measure(JobQuery(guess.args, found))
    except Unknown as missing:
        return Verdict(guess.text, "unknown", "", expected, str(missing), reason=guess.reason)
    except NoSuchPlace as problem:
        return Verdict(guess.text, "error", "", expected, str(problem), reason=guess.reason)
    except Exception as problem:  # noqa: BLE001 - one bad kind must not hide the other verdicts
        why = f"the kind {guess.kind.name} failed: {type(problem).__name__}: {problem}"
        return Verdict(guess.text, "error", "", expected, why, reason=guess.reason)
    lines = measured.lines if measured.verdict == "miss" else ()
    facts = (guess.text, measured.verdict, measured.measured, expected, measured.why)
    return Verdict(*facts, lines, guess.reason)
