"""Reads predictions and marks them: `parse`, `check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from foretrace import plugins
from foretrace.guess.grammar import match
from foretrace.guess.reading import Ask, Kind, Reading
from foretrace.guess.reason import Miss, likely
from foretrace.guess.scope import Scope, split_scope
from foretrace.guess.tokens import Token, split, wrong
from foretrace.guess.view import Unknown, View
from foretrace.guess.work import Work
from foretrace.model.trace import Trace
from foretrace.schema.verdict import Verdict, Verdicts


@dataclass(frozen=True, slots=True)
class Guess:
    """One prediction: its text, why its author expects it, and what was read from it."""

    text: str
    reason: str
    kind: Kind
    scope: Scope
    args: Mapping[str, Any]
    prediction: str

    @property
    def expected(self) -> str:
        """What it wants in symbols, else the prediction without its place."""
        return self.kind.expected(self.args) or self.prediction


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of prediction, in the order in which their patterns are tried."""
    from foretrace.guess import kinds as package

    found = plugins.declared(package, "KIND", Kind, "foretrace.guesses")
    return tuple(sorted(found, key=lambda kind: (kind.order, kind.name)))


def parse(text: str, reason: str = "") -> Guess:
    """Read one prediction; `GuessError` (a `UsageError`) points at the word that makes no sense."""
    tokens = split(text)
    scope, words = split_scope(text, tokens)
    if not words:
        raise wrong(text, tokens, len(tokens), ["a prediction, such as kernels == 5"])
    patterns = [(kind, pattern) for kind in kinds() for pattern in kind.patterns]
    kind, args = match(text, words, patterns)
    return Guess(text, reason, kind, scope, args, _between(text, words))


def _between(text: str, words: list[Token]) -> str:
    """The prediction without its scope, as written."""
    last = words[-1]
    return text[words[0].at - words[0].quoted : last.at + len(last.text) + last.quoted].strip()


def check(
    trace: Trace, guesses: str | Guess | Iterable[str | Guess], against: Trace | None = None
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss or unknown, with what was measured.

    `against` is the trace that predictions call `A`. Lack of data is unknown, never a hit. A text
    that cannot be read raises `foretrace.errors.UsageError` before anything is measured.
    """
    listed = [guesses] if isinstance(guesses, str | Guess) else list(guesses)
    read = [guess if isinstance(guess, Guess) else parse(guess) for guess in listed]
    work = Work(trace)
    other = Work(against) if against is not None else None
    return Verdicts(mark(guess, work, other) for guess in read)


def mark(guess: Guess, work: Work, other: Work | None = None) -> Verdict:
    """Mark one prediction."""
    expected = guess.expected
    try:
        ask = _ask(guess, work, other)
        reading = guess.kind.measure(ask)
    except Unknown as gap:
        return Verdict(
            guess.text, "unknown", "", expected, _gap_first(str(gap), work), reason=guess.reason
        )
    if reading.verdict != "miss":
        return Verdict(
            guess.text,
            reading.verdict,
            reading.measured,
            expected,
            reading.why,
            reason=guess.reason,
        )
    why = " ".join(
        part for part in (reading.why, likely(Miss(guess.kind.name, ask, reading))) if part
    )
    return Verdict(
        guess.text,
        "miss",
        reading.measured,
        expected,
        why,
        _slice(reading),
        guess.reason,
        _ids(reading),
    )


def _gap_first(why: str, work: Work) -> str:
    """What a trace lacks it may lack because it is not whole."""
    gap = work.trace.ledger.gap
    return why if not gap or gap in why else f"{gap}; {why}"


def _ask(guess: Guess, work: Work, other: Work | None) -> Ask:
    views = guess.scope.views(work)
    if other is None:
        return Ask(guess.args, guess.scope, views)
    try:
        return Ask(guess.args, guess.scope, views, guess.scope.views(other))
    except Unknown as gap:
        return Ask(guess.args, guess.scope, views, None, f"in A: {gap}")


def _slice(reading: Reading) -> tuple[str, ...]:
    """The lines of the trace that decide a miss."""
    view: View | None = reading.view
    if view is None or not (reading.rows or reading.events):
        return ()
    return (f"{view.label}:", *view.gpu_lines(reading.rows), *view.host_lines(reading.events))


def _ids(reading: Reading) -> tuple[int, ...]:
    gpu = reading.view.work.trace.gpu.id if reading.view else ()
    return tuple(int(gpu[row]) for row in reading.rows) + tuple(reading.events)
