"""Everything about a job as one document: each analysis runs once.

A step that a recording cut counts only where no other was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foretrace.analyze.jobs.bubbles import bubbles
from foretrace.analyze.jobs.critical import walked
from foretrace.analyze.jobs.dependencies import graph
from foretrace.analyze.jobs.encounters import encounters
from foretrace.analyze.jobs.exposure import exposure, overlap, perfect, typical
from foretrace.analyze.jobs.matching import MatchedCollectives
from foretrace.analyze.jobs.network import bandwidths, outliers, transfers
from foretrace.analyze.jobs.sameness import sameness, world_size
from foretrace.analyze.jobs.stragglers import hosts, stragglers
from foretrace.analyze.jobs.summary_rows import (
    bubble_rows,
    cells,
    host_rows,
    network_rows,
    outlier_rows,
    overlap_rows,
    path_row,
    rank_rows,
    whole,
)
from foretrace.analyze.jobs.what_if import what_ifs
from foretrace.schema.documents.job import SCHEMA, JobDocument, JobEntry, JobPath
from foretrace.schema.jobs import WITHOUT_STEPS

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

SUSPECTS = 3  # ranks that come late, of which the path says what they cost


def summarize(job: Job) -> JobDocument:
    """Run every analysis once."""
    (met, clocks, waited), times = encounters(job), exposure(job)
    counted = times.filter("whole") if times["whole"].any() else times
    steps, sent, shared = times["step"].n_unique(), transfers(job, met), met.shared
    late, slow = stragglers(waited, job), outliers(job, met, sent)
    return JobDocument(
        schema=SCHEMA,
        job=_entry(job, counted),
        ranks=rank_rows(job, counted, waited, clocks, late),
        hosts=host_rows(job, hosts(waited, job, late), waited, times),
        cells=cells(times, waited),
        collectives=met.arrivals.height,
        matched=shared.height,
        by_order=shared.filter(pl.col("collective") != "send", how="order").height,
        undecided=_undecided(waited),
        perfect_overlap_ns=whole(perfect(counted)["saves_ns"].median()),
        overlap=overlap_rows(overlap(job, waited), steps),
        bubbles=bubble_rows(bubbles(job, met, waited)),
        path=_path(job, met, clocks, typical(times), late, slow),
        network=network_rows(bandwidths(sent)),
        outliers=outlier_rows(slow),
        same=sameness(job, met),
        notes=list(job.notes),
        left_out=list(job.left_out),
        unnamed=_unnamed(met),
    )


def _entry(job: Job, times: pl.DataFrame) -> JobEntry:
    longest = times.group_by("step").agg(pl.col("wall_ns").max())["wall_ns"]
    return JobEntry(
        path=job.path,
        ranks=len(job.members),
        world_size=world_size(job.members),
        hosts=len({each.host for each in job.members if each.host}),
        devices=sorted({device for each in job.members for device in each.devices}),
        steps=[step for step in times["step"].unique().sort() if step != WITHOUT_STEPS],
        step_ns=whole(longest.mean()),
        median_step_ns=whole(longest.median()),
        file_bytes=sum(each.file_bytes for each in job.facts),
        events=sum(each.events for each in job.facts),
        kernels=_kernels(job),
    )


def _kernels(job: Job) -> int:
    return job.table("kernels").select(pl.col("count").sum()).collect().item() or 0


def _unnamed(met: MatchedCollectives) -> int:
    """Collectives of all ranks whose group no trace names."""
    without = met.collectives.filter(pl.col("group") == "").select("collective_id")
    return met.arrivals.join(without, on="collective_id", how="semi").height


def _undecided(waited: pl.DataFrame) -> int:
    """Collectives in which no rank is late beyond the clocks' error."""
    late = pl.col("late_ns") > pl.col("error_ns")
    return waited.group_by("collective_id").agg(late.any()).filter(~pl.col("late_ns")).height


def _path(
    job: Job,
    met: MatchedCollectives,
    clocks: pl.DataFrame,
    step: int | None,
    late: pl.DataFrame,
    slow: pl.DataFrame,
) -> JobPath | None:
    steps = None if step is None else graph(job, met, clocks, step)
    if steps is None:
        return None
    path = walked(steps)
    suspects = late.filter(pl.col("delays_ns") > 0).top_k(SUSPECTS, by="delays_ns")
    changes = what_ifs(job, steps, path, met, suspects["rank"].to_list(), slow)
    return path_row(path, changes, whole(clocks["error_ns"].max()))
