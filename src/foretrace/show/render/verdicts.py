"""Verdicts as text for people: the score first, then one line or one paragraph per prediction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from foretrace.base.patterns import regex
from foretrace.base.units import plural
from foretrace.schema.finding import Verdict
from foretrace.show.render.terminal import Section, marked, painted, plain

SCREEN = 25  # lines of a first screen
_WIDE = 160  # characters of a line on it
_FIRST = regex(r"^(?:ERROR|MISS|unknown|hit)(?= )", re.MULTILINE)
_MARKS = {"error": "ERROR  ", "miss": "MISS   ", "unknown": "unknown", "hit": "hit    "}


def coloured(page: str) -> str:
    """The page for a terminal that shows colour: each line begins with its verdict."""
    return _FIRST.sub(lambda match: painted(match[0]), page)


def verdicts_markdown(page: str) -> str:
    """The page for a pull request: the score, and the rest as it is on a terminal."""
    score, _, rest = page.partition("\n")
    return marked([Section("", [score], code=rest)])


def verdicts_page(verdicts: Sequence[Verdict]) -> str:
    """The first screen: everything where it fits, else one line each, what failed first."""
    whole = verdicts_text(verdicts)
    if len(whole.splitlines()) <= SCREEN:
        return whole
    order = list(_MARKS)
    lines = [_line(one) for one in sorted(verdicts, key=lambda one: order.index(one.verdict))]
    shown = lines[: SCREEN - 2]
    left = f" ({len(lines) - len(shown)} more)" if len(lines) > len(shown) else ""
    return "\n".join([_score(verdicts), *shown, f"--all shows the evidence{left}"])


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """The score and one paragraph per prediction, a miss with its author's reason."""
    shown = (one.reason if one.verdict == "miss" else "" for one in verdicts)
    return _text(verdicts, (f"expected because: {reason}" if reason else "" for reason in shown))


def lesson_text(verdicts: Sequence[Verdict]) -> str:
    """Marked answers, each with what it teaches."""
    return _text(verdicts, (one.reason for one in verdicts))


def _text(verdicts: Sequence[Verdict], remarks: Iterable[str]) -> str:
    paragraphs = [_one(*pair) for pair in zip(verdicts, remarks, strict=True)]
    return "\n".join([_score(verdicts), *paragraphs])


def _score(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    score = f"{counts['hit']} hit, {counts['miss']} missed, {counts['unknown']} unknown"
    errors = f", {plural(counts['error'], 'error')}" if counts["error"] else ""
    return f"{plural(len(verdicts), 'guess', 'guesses')}: {score}{errors}"


def _line(verdict: Verdict) -> str:
    fact = verdict.measured if verdict.verdict in ("hit", "miss") else verdict.why
    line = plain(f"{_MARKS[verdict.verdict]} {verdict.text} · {fact}")
    return line if len(line) <= _WIDE else line[: _WIDE - 1] + "…"


def _one(verdict: Verdict, remark: str) -> str:
    measured = f"measured {verdict.measured}" if verdict.measured else ""
    notes = [measured, remark, f"why: {verdict.why}" if verdict.why else ""]
    if verdict.verdict == "error":  # the mark stands under the wrong word
        notes = [f"{carets} {verdict.why}" for carets in verdict.slice] or [verdict.why]
    evidence = verdict.slice if verdict.verdict != "error" else ()
    lines = [
        f"{_MARKS[verdict.verdict]} {verdict.text}",
        *(f"        {note}" for note in notes if note),
        *(f"          {line}" for line in evidence),
    ]
    return "\n".join(plain(line) for line in lines)
