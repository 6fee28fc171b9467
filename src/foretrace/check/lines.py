"""Verdicts as text for people: the score first, then one line or one paragraph per prediction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from foretrace.base.patterns import regex
from foretrace.base.tables import marked, paragraphs
from foretrace.base.terminal import painted, plain
from foretrace.base.units import plural
from foretrace.check.verdict import Verdict

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
    return marked([paragraphs("", score, code=rest)])


def verdicts_page(verdicts: Sequence[Verdict]) -> str:
    """The first screen: everything where it fits, else one line each, what failed first."""
    whole = verdicts_text(verdicts)
    if len(whole.splitlines()) <= SCREEN:
        return whole
    order, lines = list(_MARKS), []
    for one in sorted(verdicts, key=lambda one: order.index(one.verdict)):
        fact = one.measured if one.verdict in ("hit", "miss") else one.why
        line = plain(f"{_MARKS[one.verdict]} {one.text} · {fact}")
        lines.append(line if len(line) <= _WIDE else line[: _WIDE - 1] + "…")
    shown = lines[: SCREEN - 2]
    left = f" ({len(lines) - len(shown)} more)" if len(lines) > len(shown) else ""
    return "\n".join([_score(verdicts), *shown, f"--all shows the evidence{left}"])


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """The score and one paragraph per prediction, a miss with its author's reason."""
    shown = (one.reason if one.verdict == "miss" else "" for one in verdicts)
    return _text(verdicts, (f"expected because: {reason}" if reason else "" for reason in shown))


def _text(verdicts: Sequence[Verdict], remarks: Iterable[str]) -> str:
    lines = []
    for one, remark in zip(verdicts, remarks, strict=True):
        measured = f"measured {one.measured}" if one.measured else ""
        notes = [measured, remark, f"why: {one.why}" if one.why else ""]
        if one.verdict == "error":  # the mark stands under the wrong word
            marked = [line for line in one.slice if line != one.text]
            notes = [*marked, one.why]
        lines.append(f"{_MARKS[one.verdict]} {one.text}")
        lines += [f"        {note}" for note in notes if note]
        lines += [f"          {line}" for line in one.slice if one.verdict != "error"]
    return "\n".join([_score(verdicts), *map(plain, lines)])


def _score(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    score = f"{counts['hit']} hit, {counts['miss']} missed, {counts['unknown']} unknown"
    errors = f", {plural(counts['error'], 'error')}" if counts["error"] else ""
    return f"{plural(len(verdicts), 'prediction')}: {score}{errors}"
