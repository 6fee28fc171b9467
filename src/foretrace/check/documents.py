"""`foretrace check --json`: predictions and their verdicts.
`foretrace check TRACE --json` without predictions: those that hold on a trace.
`foretrace look --guess --json`: your numbers and the real ones.
`look A --guess --then B --json`: what a reader and the replay expect of B, from A alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from foretrace.check.verdict import Verdict

SCHEMA = 1


class HeldPrediction(Struct, frozen=True):
    """A prediction and why it is expected."""

    text: str
    reason: str


class HoldingDocument(Struct, frozen=True):
    """Predictions that hold on a trace now."""

    schema: int
    predictions: list[HeldPrediction]


class MarkedPrediction(Struct, frozen=True):
    """One prediction; `verdict` is hit, miss, unknown or error (it cannot be parsed, or names a
    region or step that the trace does not have), `expected` as it was read.
    """

    text: str
    verdict: Annotated[str, Meta(pattern="^(hit|miss|unknown|error)$")]
    measured: str
    expected: str
    why: str


class CheckDocument(Struct, frozen=True):
    """Every prediction and the score."""

    schema: int
    hits: int
    misses: int
    unknown: int
    guesses: list[MarkedPrediction]


class MarkedAnswer(Struct, frozen=True):
    """An answer before looking: the real number is `times` as large; `near` within a quarter."""

    name: str
    yours: str
    real: str
    times: float
    near: bool
    meaning: str


class GuessDocument(Struct, frozen=True):
    """Every answer, in the order in which they were asked."""

    schema: int
    answers: list[MarkedAnswer]


def document(verdicts: Iterable[Verdict]) -> CheckDocument:
    """The verdicts as `foretrace check --json` prints them."""
    marked = [
        MarkedPrediction(each.text, each.verdict, each.measured, each.expected, each.why)
        for each in verdicts
    ]
    counts = Counter(each.verdict for each in marked)
    return CheckDocument(SCHEMA, counts["hit"], counts["miss"], counts["unknown"], marked)


DOCUMENTS = {"check": CheckDocument, "holding": HoldingDocument, "guess": GuessDocument}
