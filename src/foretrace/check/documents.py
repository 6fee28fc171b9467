"""`foretrace check --json`, and `look --guess --json`: predictions and their verdicts.
`foretrace check TRACE --write --json`: predictions that hold on a trace.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class HeldGuess(Struct, frozen=True):
    """A prediction and why it is expected."""

    text: str
    reason: str


class GuessDocument(Struct, frozen=True):
    """Predictions that hold on a trace now."""

    schema: int
    guesses: list[HeldGuess]


class MarkedGuess(Struct, frozen=True):
    """One prediction; `verdict` is hit, miss, unknown or error (it cannot be parsed, or names a
    region or step that the trace does not have), `expected` what it wants in symbols.
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
    guesses: list[MarkedGuess]


DOCUMENTS = {"check": CheckDocument, "expected": GuessDocument}
