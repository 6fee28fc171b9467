"""Synthetic jobs with known answers: `write(Plan(...), folder) -> Answer`."""

from jobs.plan.answer import Answer, Met, StepTimes
from jobs.plan.plan import Clock, Delay, Plan
from jobs.plan.write import write

__all__ = ["Answer", "Clock", "Delay", "Met", "Plan", "StepTimes", "write"]
