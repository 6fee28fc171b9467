"""Verdicts as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from foretrace.render.safe import plain
from foretrace.schema.verdict import Verdict
from foretrace.units import plural

_MARKS = {"hit": "hit    ", "miss": "MISS   ", "unknown": "unknown"}


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """One paragraph per prediction, a miss with its author's reason, and the score."""
    shown = (one.reason if one.verdict == "miss" else "" for one in verdicts)
    return _text(verdicts, (f"expected because: {reason}" if reason else "" for reason in shown))


def lesson_text(verdicts: Sequence[Verdict]) -> str:
    """Marked answers, each with what it teaches."""
    return _text(verdicts, (one.reason for one in verdicts))


def _text(verdicts: Sequence[Verdict], remarks: Iterable[str]) -> str:
    paragraphs = [_one(*pair) for pair in zip(verdicts, remarks, strict=True)]
    counts = Counter(verdict.verdict for verdict in verdicts)
    score = f"{counts['hit']} hit, {counts['miss']} missed, {counts['unknown']} unknown"
    return "\n".join([*paragraphs, "", f"{plural(len(verdicts), 'guess', 'guesses')}: {score}"])


def _one(verdict: Verdict, remark: str) -> str:
    measured = f"measured {verdict.measured}" if verdict.measured else ""
    notes = [measured, remark, f"why: {verdict.why}" if verdict.why else ""]
    lines = [
        f"{_MARKS[verdict.verdict]} {verdict.text}",
        *(f"        {note}" for note in notes if note),
        *(f"          {line}" for line in verdict.slice),
    ]
    return "\n".join(plain(line) for line in lines)
