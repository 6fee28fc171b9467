"""`foretrace check --json`, and `look --guess --json`: predictions and their verdicts.
`look A --guess --then B --json`: what a reader and the replay expect of B, from A alone.
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


class MarkedForecast(Struct, frozen=True):
    """An expected value, or an interval of it; `verdict` is unknown where B does not decide."""

    low: float
    high: float
    verdict: Annotated[str, Meta(pattern="^(hit|miss|unknown)$")]


class ForecastEntry(Struct, frozen=True):
    """One quantity of a step in A and B, and what was expected of B.

    `name` is kernels, bytes (memory traffic of the kernels beside matmuls and attention), gpu_ns
    (GPU busy) or step_ns (without the profiler). `you` is None for a question that was skipped,
    `replay` where the replay does not say; `b` is None where B does not have it.
    """

    name: str
    a: float
    you: MarkedForecast | None
    replay: MarkedForecast | None
    b: float | None


class Forecast(Struct, frozen=True):
    """`fix` leads from A to B, and `order` is what to write; `reason` why the replay says nothing.

    `per` is what the quantities are for: a step, or a call of a region.
    """

    schema: int
    a: str
    b: str
    per: str
    fix: str
    order: str
    entries: list[ForecastEntry]
    reason: str = ""


DOCUMENTS = {"check": CheckDocument, "forecast": Forecast, "expected": GuessDocument}
