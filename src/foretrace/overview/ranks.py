"""How far the ranks of one run differ, from their documents of `look`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

from foretrace.model.about import is_coordinator
from foretrace.schema.documents.look import Look, StepRow


class Spread(Struct, frozen=True):
    """The least and the largest value over the ranks; `unit` is `ns`, or empty for a count."""

    what: str
    unit: str
    least: float
    least_rank: int
    most: float
    most_rank: int

    @property
    def ratio(self) -> float | None:
        """Largest to least value."""
        return self.most / self.least if self.least else None


def spreads(looks: Sequence[Look]) -> list[Spread]:
    """The largest difference first; empty unless these are ranks of one run, each there once."""
    ranks = [
        (look.trace.rank, look)
        for look in looks
        if look.trace.rank is not None and not is_coordinator(look.trace.path)
    ]
    if len({rank for rank, _ in ranks}) < len(ranks):
        return []
    found = [_spread(what, unit, measure, ranks) for what, unit, measure in MEASURES]
    return sorted(filter(None, found), key=lambda spread: -(spread.ratio or 0))


def _spread(
    what: str, unit: str, measure: Callable[[Look], float | None], ranks: list[tuple[int, Look]]
) -> Spread | None:
    known = [(value, rank) for rank, look in ranks if (value := measure(look)) is not None]
    if len(known) < 2:
        return None
    # of equals, the first rank
    least, most = min(known), max(known, key=lambda pair: (pair[0], -pair[1]))
    return Spread(what, unit, *least, *most) if most[0] else None


def per_step(look: Look, measure: Callable[[StepRow], float | None]) -> float | None:
    """The median over the steps; None without steps, or when a step lacks the value."""
    values = [measure(step) for step in look.steps]
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def host_per_step(look: Look) -> float | None:
    """The median host time of a step."""
    return per_step(look, lambda step: step.cpu_ns)


def _collectives(look: Look) -> float | None:
    times = [
        row.total_ns / row.count * row.per_step
        for row in look.kernels
        if row.role == "comms" and row.per_step and row.total_ns is not None
    ]
    return sum(times) if times else None


MEASURES: tuple[tuple[str, str, Callable[[Look], float | None]], ...] = (
    ("host time per step", "ns", host_per_step),
    ("GPU busy per step", "ns", lambda look: per_step(look, lambda step: step.gpu_busy_ns)),
    ("kernels per step", "", lambda look: per_step(look, lambda step: step.kernels)),
    ("in collectives per step (mean)", "ns", _collectives),
    ("GPU busy in total", "ns", lambda look: None if look.steps else look.totals.gpu_busy_ns),
)
