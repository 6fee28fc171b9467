"""Compute, communication, both and neither: per rank and step, and what perfect overlap would save.

`compute_ns` includes `both_ns`, so compute, exposed, copy and idle add up to the step's wall time.
Exposed communication is communication under which no kernel computes; waiting for late ranks is in
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foretrace.analyze.jobs.roles import roles

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

_TIMES = (
    "wall_ns", "compute_ns", "exposed_ns", "both_ns", "copy_ns", "idle_ns", "data_ns", "host_ns",
)  # fmt: skip


def exposure(job: Job) -> pl.DataFrame:
    """One row per rank and step; `whole` is false for a step that the recording cut."""
    wall = (pl.col("window_end_ns") - pl.col("window_start_ns")).alias("wall_ns")
    exposed = (pl.col("comms_ns") - pl.col("both_ns")).alias("exposed_ns")
    steps = job.table("steps").with_columns(wall, exposed)
    return steps.select("rank", "step", *_TIMES, "whole").sort("rank", "step").collect()


def typical(times: pl.DataFrame) -> int | None:
    """The step whose longest rank takes the median time, of the steps that no recording cut."""
    walls = times.group_by("step").agg(pl.col("wall_ns").max(), pl.col("whole").all())
    chosen = walls.filter("whole") if walls["whole"].any() else walls
    ordered = chosen.sort("wall_ns", "step")["step"].to_list()
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def overlap(job: Job, waited: pl.DataFrame) -> pl.DataFrame:
    """One row per role of groups and kind of collective: its time on all ranks, and the exposed
    part of it.

    `groups` and `ranks` count those that recorded it. `wait_ns` is the part of `exposed_ns` in
    which a rank waited for another, where `waited` (what `waits` gives) knows it. `share` is the
    part of all time under which kernels compute.
    """
    alone = pl.col("alone_ns").fill_null(pl.col("total_ns"))
    waits = waited.lazy().select("rank", "id", pl.col("exposed_wait_ns").alias("wait_ns"))
    return (
        job.table("collectives")
        .with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("total_ns"))
        .with_columns(pl.min_horizontal(alone, "total_ns").alias("exposed_ns"))
        .join(roles(job).lazy(), on=("rank", "group"), how="left")
        .join(waits, on=("rank", "id"), how="left")
        .with_columns(pl.coalesce("label", "group", pl.lit("")).alias("label"))
        .group_by(pl.coalesce("role", "label").alias("group"), "collective")
        .agg(
            pl.col("label").n_unique().alias("groups"),
            pl.col("rank").n_unique().alias("ranks"),
            pl.len().alias("count"),
            pl.col("total_ns", "exposed_ns").sum(),
            pl.when(pl.col("wait_ns").is_not_null().any()).then(pl.col("wait_ns").sum()),
        )
        .with_columns(share=1 - pl.col("exposed_ns") / pl.col("total_ns").clip(1))
        .sort("exposed_ns", "group", "collective", descending=[True, False, False])
        .collect()
    )


def perfect(times: pl.DataFrame) -> pl.DataFrame:
    """What each step would save at most if compute hid communication on every rank.

    A rank cannot hide more than the compute that is free of communication, and a step still takes
    as long as its longest rank (`rank`).
    """
    free = pl.col("compute_ns") - pl.col("both_ns")
    hidden = pl.min_horizontal("exposed_ns", free)
    best = times.with_columns((pl.col("wall_ns") - hidden).alias("at_best_ns"))
    longest = best.group_by("step").agg(
        pl.col("wall_ns").max(),
        pl.col("at_best_ns").max(),
        pl.col("rank").sort_by("at_best_ns").last(),
        pl.col("whole").all(),
    )
    saved = (pl.col("wall_ns") - pl.col("at_best_ns")).alias("saves_ns")
    return longest.with_columns(saved).sort("step")
