"""What a fix must be worth, and what rules say of compiling and of captures."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.base.units import time_text
from foretrace.schema.documents.look import FindingEntry
from foretrace.schema.finding import Finding
from foretrace.show.overview.measured_step import MeasuredStep

# A fix that saves less of the step than this is not worth a line of the first screen.
WORTH = 0.01
TRIAGE = "compile_triage"  # has its own line; another rule with the same fix is more exact
HARDLY = "can hardly help"


def captured(step: MeasuredStep) -> bool:
    """Whether capturing CUDA graphs took most of the time."""
    return step.idle_by_cause.get("capture", 0) > step.wall_ns / 2


def triage(findings: Sequence[FindingEntry]) -> str:
    """Whether compiling helps, where a rule could tell."""
    found = (row.title for row in findings if row.rule == TRIAGE and row.state == "found")
    return next(found, "").removeprefix("Compiling ")


def saving_text(row: FindingEntry | Finding) -> str:
    """`about 1.20 ms` where a replay predicts it, `at most 3.00 ms` where only a bound is known."""
    if row.saves_ns is not None:
        return f"about {time_text(row.saves_ns)}"
    return "" if row.at_most_ns is None else f"at most {time_text(row.at_most_ns)}"


def whole_ns(step: MeasuredStep) -> float:
    """What the savings of findings are of: a step, or without steps the recording."""
    return step.wall_ns if step.per == "per step" else step.wall_ns * step.calls
