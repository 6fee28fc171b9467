"""A planned job, read and matched: what the tests of several analyses start from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from msgspec import Struct

from foretrace import jobs
from foretrace.jobs.clocks import fit
from foretrace.jobs.critical_path import StepGraph, graph
from foretrace.jobs.matched_collectives import MatchedCollectives, match
from foretrace.jobs.waits import waits, with_exposed
from foretrace.jobs.whole_job import Job
from jobs.plan import Answer, Plan, write


class Read(Struct, frozen=True):
    """A job and what the analyses take."""

    job: Job
    truth: Answer
    met: MatchedCollectives
    clocks: pl.DataFrame

    def graph(self, step: int) -> StepGraph:
        found = graph(self.job, self.met, self.clocks, step)
        assert found is not None
        return found

    def waits(self) -> pl.DataFrame:
        return with_exposed(self.job, waits(self.job, self.met, self.clocks))


@contextmanager
def reading(plan: Plan, folder: Path) -> Iterator[Read]:
    """Write the files of a plan and read them."""
    truth = write(plan, folder)
    with jobs.read(folder, cache=False) as job:
        met = match(job)
        yield Read(job, truth, met, fit(job, met))
