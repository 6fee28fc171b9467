"""`foretrace check TRACE --write --json`: predictions that hold on a trace."""

from __future__ import annotations

from msgspec import Struct


class HeldGuess(Struct, frozen=True):
    """A prediction and why it is expected."""

    text: str
    reason: str


class GuessDocument(Struct, frozen=True):
    """Predictions that hold on a trace now."""

    schema: int
    guesses: list[HeldGuess]


DOCUMENT = GuessDocument
