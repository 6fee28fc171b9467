"""How far the ranks of one run lie apart, from their documents of `look`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from foretrace.model.about import is_coordinator

Look = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """One quantity over the ranks: who has the least of it and who the most; `unit` is `ns` or
    empty for a count.
    """

    what: str
    unit: str
    least: float
    least_rank: int
    most: float
    most_rank: int

    @property
    def ratio(self) -> float | None:
        return self.most / self.least if self.least else None


def spreads(looks: Sequence[Look]) -> list[Spread]:
    """Where the ranks differ most comes first; empty unless these are ranks of one run, each there
    once.

    A quantity is compared among the ranks that know it.
    """
    ranks = [
        (look["trace"]["rank"], look)
        for look in looks
        if look["trace"]["rank"] is not None and not is_coordinator(look["trace"]["path"])
    ]
    if len({rank for rank, _ in ranks}) < len(ranks):
        return []
    found = [
        spread
        for what, (unit, measure) in MEASURES.items()
        if (spread := _spread(what, unit, measure, ranks))
    ]
    return sorted(found, key=lambda spread: -(spread.ratio or 0))


def _spread(
    what: str, unit: str, measure: Callable[[Look], float | None], ranks: list[tuple[int, Look]]
) -> Spread | None:
    known = [(value, rank) for rank, look in ranks if (value := measure(look)) is not None]
    if len(known) < 2:
        return None
    # of equals, the first rank
    least, most = min(known), max(known, key=lambda pair: (pair[0], -pair[1]))
    return Spread(what, unit, *least, *most) if most[0] else None


def per_step(look: Look, column: str) -> float | None:
    """The median over the steps; None without steps, or when a step does not know it."""
    values = [step[column] for step in look["steps"]]
    return statistics.median(values) if values and None not in values else None


def _collectives(look: Look) -> float | None:
    rows = [
        row
        for row in look["kernels"]
        if row["role"] == "comms" and row["per_step"] and row["total_ns"] is not None
    ]
    return sum(row["total_ns"] / row["count"] * row["per_step"] for row in rows) if rows else None


MEASURES: dict[str, tuple[str, Callable[[Look], float | None]]] = {
    "host time per step": ("ns", lambda look: per_step(look, "cpu_ns")),
    "GPU busy per step": ("ns", lambda look: per_step(look, "gpu_busy_ns")),
    "kernels per step": ("", lambda look: per_step(look, "kernels")),
    "in collectives per step (mean)": ("ns", _collectives),
    "GPU busy in all": (
        "ns",
        lambda look: None if look["steps"] else look["totals"]["gpu_busy_ns"],
    ),
}
