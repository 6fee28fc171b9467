"""Synthetic jobs with known answers: `write(Plan(...), folder) -> Answer`."""

from jobs.plan.answer import Answer, Met, StepTimes
from jobs.plan.critical import Segment
from jobs.plan.plan import Clock, Delay, Gaps, Plan
from jobs.plan.write import sized, write

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
