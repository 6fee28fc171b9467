"""What everything about several ranks begins with, derived once: collectives, clocks and waits."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from foretrace.analyze.jobs.clocks import fit
from foretrace.analyze.jobs.exposed_waits import with_exposed
from foretrace.analyze.jobs.matching import MatchedCollectives, match
from foretrace.analyze.jobs.waits import waits

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job


class Encounters(NamedTuple):
    """The collectives that ranks share, the clock of each rank, and who waited for whom."""

    met: MatchedCollectives
    clocks: pl.DataFrame
    waited: pl.DataFrame


@lru_cache(maxsize=1)  # a page asks after the summary did; of a thousand ranks this takes a minute
def encounters(job: Job) -> Encounters:
    """Match the collectives of a job, fit its clocks, and time the waits."""
    met = match(job)
    clocks = fit(job, met)
    return Encounters(met, clocks, with_exposed(job, waits(job, met, clocks)))
