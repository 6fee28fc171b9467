"""`foretrace compare A.json B.json --json` of two results of `foretrace try`: what changed."""

from __future__ import annotations

from msgspec import Struct

from foretrace.schema.documents.compare import ChangeEntry, CompareVerdict


class TriedSide(Struct, frozen=True):
    """One result: the script, where it ran, and the fixes that paid together."""

    script: str
    device: str
    torch: str
    found_by: str
    best: list[str]


class TriedChange(Struct, frozen=True):
    """One fix in both results. `a` and `b` are how many times faster it made a step.

    They are null where it was not measured. `answer` is lost (it paid in A alone), gained, less,
    more, same (the intervals overlap) or not compared; `text` says it in a sentence. `base` are
    the fixes that were on for both sides.
    """

    name: str
    title: str
    base: list[str]
    a: float | None
    b: float | None
    answer: str
    text: str


class CompareTriesDocument(Struct, frozen=True):
    """B compared with A. `untouched_ns` and `best_ns` are times per step; the noise of the best is
    not known. `verdict` is about the untouched script.
    """

    schema: int
    a: TriedSide
    b: TriedSide
    verdict: CompareVerdict
    untouched_ns: ChangeEntry
    best_ns: ChangeEntry
    fixes: list[TriedChange]


DOCUMENT = CompareTriesDocument
