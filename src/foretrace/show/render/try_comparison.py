"""Two results of `foretrace try` compared, for people: which fixes no longer pay, and which do."""

from __future__ import annotations

import os

from foretrace.base.units import change_text, ratio_text
from foretrace.schema.documents.compare_tries import CompareTriesDocument, TriedChange, TriedSide
from foretrace.show.render.terminal import Section

SAID = ("lost", "gained")  # those that have a line of their own
WORDS = {"same": "within the noise"}


def try_comparison(found: CompareTriesDocument) -> list[Section]:
    """Both sides, the verdict, the fixes that changed, and a row for each that both measured."""
    rows = [row for row in found.fixes if row.a is not None and row.b is not None]
    sides = [("A", _side(found.a)), ("B", _side(found.b))]
    verdict = (found.verdict.answer.upper(), found.verdict.text)
    changed = [(row.answer.upper(), row.text) for row in found.fixes if row.answer in SAID]
    head = Section("", labelled=[*sides, verdict, ("BEST", _best(found)), *changed])
    table = Section("", head=["fix", "A", "B", "change"], rows=list(map(_cells, rows)), left=(0, 3))
    rest = [row.text for row in found.fixes if row.answer == "not compared" and _known(row)]
    return [head, *([table] if rows else []), *([Section("", rest)] if rest else [])]


def _side(side: TriedSide) -> str:
    return f"{os.path.basename(side.script)} · {side.device} · torch {side.torch}"


def _best(found: CompareTriesDocument) -> str:
    times = f"{change_text(found.best_ns.a, found.best_ns.b)} ({ratio_text(found.best_ns.ratio)})"
    a, b = (", then ".join(side.best) or "the script as it is" for side in (found.a, found.b))
    return f"{times}: {a}" if a == b else f"{times}: {a} in A; {b} in B"


def _known(row: TriedChange) -> bool:
    """Whether one of the two measured it."""
    return row.a is not None or row.b is not None


def _cells(row: TriedChange) -> list[str]:
    title = f"+ {row.title}" if row.base else row.title
    return [title, ratio_text(row.a), ratio_text(row.b), WORDS.get(row.answer, row.answer)]
