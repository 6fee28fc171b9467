"""Synthetic jobs with known answers: `write(Plan(...), folder) -> Answer`."""

from analyze.jobs.plan.answer import Answer, Met, StepTimes
from analyze.jobs.plan.critical import Segment
from analyze.jobs.plan.plan import Clock, Delay, Gaps, Plan
from analyze.jobs.plan.write import sized, write

__all__ = [
    "Answer",
    "Clock",
    "Delay",
    "Gaps",
    "Met",
    "Plan",
    "Segment",
    "StepTimes",
    "sized",
    "write",
]
