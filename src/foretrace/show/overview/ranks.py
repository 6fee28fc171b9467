"""Whether several traces are one job, and how far its ranks differ, from their documents."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from msgspec import Struct

from foretrace.base.units import count_text, plural, ratio_text, time_text
from foretrace.schema.documents.look import Look, StepRow
from foretrace.schema.documents.sets import LookSet
from foretrace.show.overview.page import Line


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


def lines(found: LookSet) -> list[Line]:
    """What the traces are to each other, and where the ranks of one job differ most."""
    if not found.job:
        return [
            Line(
                "SEPARATE TRACES",
                "their headers and names state no common job; compare two: foretrace compare A B",
            )
        ]
    said = [Line("ONE JOB", plural(len(found.job), "rank"))]
    for worst in [each for each in spreads(found)[:1] if each.least < each.most]:
        text = time_text if worst.unit == "ns" else count_text
        least = f"{text(worst.least)} (rank {worst.least_rank})"
        most = f"{text(worst.most)} (rank {worst.most_rank})"
        said.append(Line("DIFFER", f"{worst.what}: {least} to {most}, {ratio_text(worst.ratio)}"))
    return said


def spreads(found: LookSet) -> list[Spread]:
    """The largest difference first; empty unless these are ranks of one job, each there once."""
    job = set(found.job)
    ranks = [
        (look.trace.rank, look)
        for look in found.traces
        if look.trace.rank is not None and look.trace.path in job
    ]
    if len({rank for rank, _ in ranks}) < len(ranks):
        return []
    measured = [_spread(what, unit, measure, ranks) for what, unit, measure in MEASURES]
    return sorted(filter(None, measured), key=lambda spread: -(spread.ratio or 0))


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
