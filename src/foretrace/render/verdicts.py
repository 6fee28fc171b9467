"""Verdicts as text for people, and as the document of `foretrace check --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from foretrace.render.safe import plain
from foretrace.schema.verdict import Verdict

SCHEMA = 1
_MARKS = {"hit": "hit    ", "miss": "MISS   ", "unknown": "unknown"}


def document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The contract's document."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    return {
        "schema": SCHEMA,
        "hits": counts["hit"],
        "misses": counts["miss"],
        "unknown": counts["unknown"],
        "guesses": [
            {
                "text": verdict.text,
                "verdict": verdict.verdict,
                "measured": verdict.measured,
                "expected": verdict.expected,
                "why": verdict.why,
            }
            for verdict in verdicts
        ],
    }


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """One paragraph per prediction and the score."""
    return "\n".join(
        [*(_one(verdict, _expected(verdict)) for verdict in verdicts), "", score(verdicts)]
    )


def score(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    return (
        f"{len(verdicts)} guesses: {counts['hit']} hit, {counts['miss']} missed, "
        f"{counts['unknown']} unknown"
    )


def _expected(verdict: Verdict) -> str:
    return (
        f"expected because: {verdict.reason}"
        if verdict.reason and verdict.verdict == "miss"
        else ""
    )


def _one(verdict: Verdict, remark: str) -> str:
    measured = f"measured {verdict.measured}" if verdict.measured else ""
    notes = [measured, remark, f"why: {verdict.why}" if verdict.why else ""]
    lines = [
        f"{_MARKS[verdict.verdict]} {verdict.text}",
        *(f"        {note}" for note in notes if note),
        *(f"          {line}" for line in verdict.slice),
    ]
    return "\n".join(plain(line) for line in lines)


def lesson_text(verdicts: Sequence[Verdict]) -> str:
    """Marked answers, each with what it teaches."""
    return "\n".join(
        [*(_one(verdict, verdict.reason) for verdict in verdicts), "", score(verdicts)]
    )
