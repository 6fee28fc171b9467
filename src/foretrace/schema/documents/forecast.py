"""`look A --guess --then B --json`: what a reader and the replay expect of B, from A alone."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


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


DOCUMENT = Forecast
