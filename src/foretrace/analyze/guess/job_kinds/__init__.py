"""Kinds of prediction about a job, one file each: a module with a `JOB_KIND` adds one.

Each measures the document of `foretrace job`, so that a prediction copied from that page is a hit.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from foretrace.analyze.guess import kinds
from foretrace.analyze.guess.words import EQUALS
from foretrace.base import plugins
from foretrace.base.units import plural
from foretrace.schema.documents.job import JobDocument, JobRank

NO_WAITS = "no collective was matched between ranks whose clocks could be fitted"
LISTED = 6  # ranks under a miss; the table of `foretrace job` has the rest


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A prediction to measure: what its pattern read, and the job."""

    args: Mapping[str, Any]
    found: JobDocument

    def judge(self, value: float) -> str:
        """The verdict on a measured value."""
        limit = next(self.args[name] for name in ("share", "time", "amount") if name in self.args)
        verdict: str = self.args.get("compare", EQUALS).of(value, limit)
        return verdict

    @property
    def gap(self) -> str:
        """Why ranks may differ from those that were read; empty when all were."""
        job = self.found.job
        if job.world_size is not None and job.missing:
            return f"{job.world_size - job.missing:,} of {job.world_size:,} ranks were read"
        left_out = plural(len(self.found.left_out), "file")
        return f"{left_out} could not be read" if self.found.left_out else ""

    @property
    def per(self) -> str:
        """What times are of: `per step`, or the whole where the traces have no steps."""
        return "per step" if self.found.job.steps else "in the recording"

    def complete(self, found: kinds.Measurement) -> kinds.Measurement:
        """The same; a hit that ranks which were not read could change is unknown."""
        if found.verdict != "hit" or not self.gap:
            return found
        return kinds.Measurement("unknown", found.measured, self.gap)


@cache
def every() -> tuple[kinds.GuessKind, ...]:
    """Every kind, in the order in which their patterns are tried."""
    return kinds.in_order(module.JOB_KIND for module in plugins.modules(sys.modules[__name__]))


@cache
def patterns() -> kinds.Patterns:
    """Every pattern with its kind, in the order in which they are tried."""
    return kinds.patterns_of(every())


def named(rank: JobRank) -> str:
    """`rank 3 (node-1)`."""
    return f"rank {rank.rank}" + (f" ({rank.host})" if rank.host else "")
