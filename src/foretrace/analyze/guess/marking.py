"""Parses predictions and marks them: `parse`, `check`, and the document of `check --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from foretrace.analyze.guess import job_kinds, kinds, phrasing
from foretrace.analyze.guess.evidence import Evidence
from foretrace.analyze.guess.grammar import match
from foretrace.analyze.guess.job_kinds import JobQuery
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query
from foretrace.analyze.guess.phrasing import suggestion
from foretrace.analyze.guess.reasons import Miss, likely
from foretrace.analyze.guess.tokens import GuessError, split, wrong
from foretrace.analyze.guess.windows import NoSuchPlace, Scope, Unknown, split_scope, windows_of
from foretrace.base.errors import UsageError
from foretrace.model.trace import Trace
from foretrace.schema.documents.check import CheckDocument, MarkedGuess
from foretrace.schema.documents.job import JobDocument
from foretrace.schema.finding import Verdict, Verdicts

Parsed = TypeVar("Parsed")
Asked = TypeVar("Asked", Query, JobQuery)


@dataclass(frozen=True, slots=True)
class Guess:
    """One prediction: its text, why its author expects it, and what was parsed from it."""

    text: str
    reason: str
    kind: GuessKind
    scope: Scope
    args: Mapping[str, object]
    prediction: str

    @property
    def expected(self) -> str:
        """What it wants in symbols, else the prediction without its scope."""
        return self.kind.expected(self.args) or self.prediction


def parse(text: str, reason: str = "") -> Guess:
    """Parse one prediction; `GuessError` (a `UsageError`) points at the wrong word."""
    tokens = phrasing.scoped(text, split(text.rstrip(" ?.!")))
    try:
        scope, left = split_scope(text, tokens)
        words = phrasing.plain(text, left)
        if not words:
            raise wrong(text, tokens, len(tokens), ["a prediction, such as kernels == 5"])
        kind, args = match(text, words, kinds.patterns())
    except GuessError as error:
        raise error.suggesting(suggestion(text)) from None
    first, last = min(words, key=lambda word: word.at), max(words, key=lambda word: word.end)
    prediction = text[first.at - first.quoted : last.end].strip()
    return Guess(text, reason, kind, scope, args, prediction)


def parse_or_error(text: str, reason: str = "") -> Guess | Verdict:
    """Parse one prediction; one that cannot be parsed is a verdict `error` and stops no other."""
    return or_error(parse, text, reason)


def or_error(parse: Callable[[str, str], Parsed], text: str, reason: str) -> Parsed | Verdict:
    """What `parse` reads, or a verdict that says what is wrong."""
    try:
        return parse(text, reason)
    except GuessError as error:
        carets = " " * error.at + "^" * max(len(error.word), 1)
        return Verdict(text, "error", why=error.advice, slice=(carets,), reason=reason)
    except UsageError as error:
        return Verdict(text, "error", why=str(error), reason=reason)


def check(
    trace: Trace,
    guesses: str | Guess | Verdict | Iterable[str | Guess | Verdict],
    against: Trace | None = None,
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss, unknown or error, with what was measured.

    `against` is the trace that predictions call `A`. Missing data is unknown, never a hit. A text
    that cannot be parsed, or a region that is not in the trace, is an error and stops no other.
    """
    listed = [guesses] if isinstance(guesses, str | Guess | Verdict) else list(guesses)
    parsed = [parse_or_error(guess) if isinstance(guess, str) else guess for guess in listed]
    evidence = Evidence(trace)
    other = Evidence(against) if against is not None else None
    return Verdicts(
        guess if isinstance(guess, Verdict) else mark(guess, evidence, other) for guess in parsed
    )


def mark(guess: Guess, evidence: Evidence, other: Evidence | None = None) -> Verdict:
    """Mark one prediction."""
    found = _measured(guess, lambda: _query(guess, evidence, other))
    if isinstance(found, Verdict):
        return found
    query, measured = found
    if query is not None and measured.verdict == "miss":
        reasons = (measured.why, likely(guess.kind, Miss(guess.kind.name, query, measured)))
        why = " ".join(reason for reason in reasons if reason)
        return _verdict(guess, measured, why, *_deciding(measured))
    why, gap = measured.why, evidence.trace.ledger.gap
    if measured.verdict == "unknown" and gap and gap not in why:
        why = f"{gap}; {why}"  # an incomplete trace may lack the data because of the gap
    return _verdict(guess, measured, why)


def _measured(
    guess: Guess, query: Callable[[], Asked]
) -> tuple[Asked | None, Measurement] | Verdict:
    """The query and what its kind measured; a verdict `error` where that is not possible."""
    try:
        asked = query()
        return asked, guess.kind.measure(asked)
    except Unknown as missing:
        return None, Measurement("unknown", "", str(missing))
    except NoSuchPlace as problem:
        why = str(problem)
    except Exception as problem:  # noqa: BLE001 - one bad kind must not hide the other verdicts
        why = f"the kind {guess.kind.name} failed: {type(problem).__name__}: {problem}"
    return _verdict(guess, Measurement("error", ""), why)


def _verdict(
    guess: Guess,
    found: Measurement,
    why: str,
    lines: tuple[str, ...] = (),
    events: tuple[int, ...] = (),
) -> Verdict:
    facts = (guess.text, found.verdict, found.measured, guess.expected, why)
    return Verdict(*facts, lines, guess.reason, events)


def _query(guess: Guess, evidence: Evidence, other: Evidence | None) -> Query:
    windows = windows_of(guess.scope, evidence)
    if other is None:
        return Query(guess.args, guess.scope, windows)
    try:
        return Query(guess.args, guess.scope, windows, windows_of(guess.scope, other))
    except (Unknown, NoSuchPlace) as missing:
        return Query(guess.args, guess.scope, windows, None, f"in A: {missing}")


def _deciding(found: Measurement) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The lines of the trace that decide a miss, and the ids of their events."""
    window = found.window
    if window is None or not (found.rows or found.events):
        return found.lines, tuple(found.events)
    ids = [int(window.evidence.trace.gpu.id[row]) for row in found.rows] + found.events
    lines = window.lines(found.rows, found.events)
    return (*found.lines, f"{window.label}:", *lines), tuple(ids)


def document(verdicts: Iterable[Verdict]) -> CheckDocument:
    """The verdicts as `foretrace check --json` prints them."""
    marked = [
        MarkedGuess(each.text, each.verdict, each.measured, each.expected, each.why)
        for each in verdicts
    ]
    counts = Counter(each.verdict for each in marked)
    return CheckDocument(1, counts["hit"], counts["miss"], counts["unknown"], marked)


EXAMPLE = "every rank: exposed comms < 10%"
OF_A_TRACE = "this is a prediction about one trace: check it on the file of a rank"


def parse_job(text: str, reason: str = "") -> Guess:
    """Parse one prediction about a job; `GuessError` points at the wrong word."""
    tokens = [token for token in split(text.rstrip(" ?.!")) if token.key != "the"]
    try:
        kind, args = match(text, tokens, job_kinds.patterns())
    except GuessError as error:
        if _reads(text):
            raise UsageError(OF_A_TRACE) from None
        raise error.suggesting(EXAMPLE) from None
    return Guess(text, reason, kind, Scope(), args, text)


def _reads(text: str) -> bool:
    try:
        parse(text)
    except UsageError:
        return False
    return True


def check_job(found: JobDocument, guesses: Iterable[str | Guess | Verdict]) -> Verdicts:
    """Mark each prediction on the document of a job: hit, miss, unknown or error."""
    parsed = (parse_job_or_error(guess) if isinstance(guess, str) else guess for guess in guesses)
    return Verdicts(
        guess if isinstance(guess, Verdict) else _mark_job(guess, found) for guess in parsed
    )


def parse_job_or_error(text: str, reason: str = "") -> Guess | Verdict:
    """Parse one prediction; one that cannot be parsed is a verdict `error` and stops no other."""
    return or_error(parse_job, text, reason)


def _mark_job(guess: Guess, job: JobDocument) -> Verdict:
    found = _measured(guess, lambda: JobQuery(guess.args, job))
    if isinstance(found, Verdict):
        return found
    measured = found[1]
    return _verdict(guess, measured, measured.why, measured.lines * (measured.verdict == "miss"))
