"""Parses predictions and marks them: `parse`, `check`, and the document of `check --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foretrace.guess import kinds
from foretrace.guess.evidence import Evidence
from foretrace.guess.grammar import match
from foretrace.guess.kinds import GuessKind, Measurement, Query
from foretrace.guess.reasons import Miss, likely
from foretrace.guess.scope import Scope, Unknown, split_scope
from foretrace.guess.tokens import split, wrong
from foretrace.model.trace import Trace
from foretrace.schema.documents.check import CheckDocument, MarkedGuess
from foretrace.schema.verdict import Verdict, Verdicts


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
    tokens = split(text)
    scope, words = split_scope(text, tokens)
    if not words:
        raise wrong(text, tokens, len(tokens), ["a prediction, such as kernels == 5"])
    patterns = [(kind, pattern) for kind in kinds.every() for pattern in kind.patterns]
    kind, args = match(text, words, patterns)
    first, last = words[0], words[-1]
    prediction = text[first.at - first.quoted : last.at + len(last.text) + last.quoted].strip()
    return Guess(text, reason, kind, scope, args, prediction)


def check(
    trace: Trace, guesses: str | Guess | Iterable[str | Guess], against: Trace | None = None
) -> Verdicts:
    """Mark each prediction on `trace`: hit, miss or unknown, with what was measured.

    `against` is the trace that predictions call `A`. Missing data is unknown, never a hit. A text
    that cannot be parsed raises `foretrace.errors.UsageError` before anything is measured.
    """
    listed = [guesses] if isinstance(guesses, str | Guess) else list(guesses)
    parsed = [guess if isinstance(guess, Guess) else parse(guess) for guess in listed]
    evidence = Evidence(trace)
    other = Evidence(against) if against is not None else None
    return Verdicts(mark(guess, evidence, other) for guess in parsed)


def mark(guess: Guess, evidence: Evidence, other: Evidence | None = None) -> Verdict:
    """Mark one prediction."""
    try:
        query = _query(guess, evidence, other)
        found = guess.kind.measure(query)
    except Unknown as missing:
        found = Measurement("unknown", "", str(missing))
    facts = (guess.text, found.verdict, found.measured, guess.expected)
    if found.verdict == "miss":
        reasons = (found.why, likely(Miss(guess.kind.name, query, found)))
        why = " ".join(reason for reason in reasons if reason)
        lines, events = _deciding(found)
        return Verdict(*facts, why, lines, guess.reason, events)
    why, gap = found.why, evidence.trace.ledger.gap
    if found.verdict == "unknown" and gap and gap not in why:
        why = f"{gap}; {why}"  # an incomplete trace may lack the data because of the gap
    return Verdict(*facts, why, reason=guess.reason)


def _query(guess: Guess, evidence: Evidence, other: Evidence | None) -> Query:
    windows = guess.scope.windows(evidence)
    if other is None:
        return Query(guess.args, guess.scope, windows)
    try:
        return Query(guess.args, guess.scope, windows, guess.scope.windows(other))
    except Unknown as missing:
        return Query(guess.args, guess.scope, windows, None, f"in A: {missing}")


def _deciding(found: Measurement) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The lines of the trace that decide a miss, and the ids of their events."""
    window = found.window
    if window is None or not (found.rows or found.events):
        return (), tuple(found.events)
    ids = [int(window.evidence.trace.gpu.id[row]) for row in found.rows] + found.events
    return (f"{window.label}:", *window.lines(found.rows, found.events)), tuple(ids)


def document(verdicts: Iterable[Verdict]) -> CheckDocument:
    """The verdicts as `foretrace check --json` prints them."""
    marked = [
        MarkedGuess(each.text, each.verdict, each.measured, each.expected, each.why)
        for each in verdicts
    ]
    counts = Counter(each.verdict for each in marked)
    return CheckDocument(1, counts["hit"], counts["miss"], counts["unknown"], marked)
