"""What the time of ranks and steps is spent on: compute, exposed communication, pipeline bubbles.

`compute_ns` includes `both_ns`, so compute, exposed, copy and idle add up to the step's wall time.

A bubble is the time in which a rank waits for a rank of another stage, in a send, a receive or a
collective of several stages, and neither computes nor copies. Ranks that send to each other form a
pipeline; their order in it is their stage. The waits in which a rank of another stage arrived last
are joined, and the time under which kernels or copies run is subtracted.

When it is wrong: two ranks that exchange data (context parallelism) look like a pipeline of two
stages. A pipeline without sends and receives is not found, nor is a wait on the host.
"""

from __future__ import annotations

import polars as pl

from foretrace.jobs.matched_collectives import MatchedCollectives, roles
from foretrace.jobs.whole_job import Job, covered

TIMES = (
    "wall_ns", "compute_ns", "exposed_ns", "both_ns", "copy_ns", "idle_ns", "data_ns", "host_ns",
)  # fmt: skip


def exposure(job: Job) -> pl.DataFrame:
    """One row per rank and step; `whole` is false for a step that the recording cut."""
    wall = (pl.col("window_end_ns") - pl.col("window_start_ns")).alias("wall_ns")
    exposed = (pl.col("comms_ns") - pl.col("both_ns")).alias("exposed_ns")
    steps = job.table("steps").with_columns(wall, exposed)
    return steps.select("rank", "step", *TIMES, "whole").sort("rank", "step").collect()


def typical(times: pl.DataFrame) -> int | None:
    """The step whose longest rank takes the median time, of the steps that no recording cut."""
    walls = times.group_by("step").agg(pl.col("wall_ns").max(), pl.col("whole").all())
    chosen = walls.filter("whole") if walls["whole"].any() else walls
    ordered = chosen.sort("wall_ns", "step")["step"].to_list()
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def overlap(job: Job, waited: pl.DataFrame) -> pl.DataFrame:
    """One row per role of groups and kind of collective: its time on all ranks, and the exposed
    part of it.

    `ranks` counts those that recorded it. `wait_ns` is the part of `exposed_ns` in which a rank
    waited for another, where `waited` (what `waits` gives) knows it.
    """
    alone = pl.col("alone_ns").fill_null(pl.col("total_ns"))
    waits = waited.lazy().select("rank", "id", pl.col("exposed_wait_ns").alias("wait_ns"))
    return (
        job.table("collectives")
        .with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("total_ns"))
        .with_columns(pl.min_horizontal(alone, "total_ns").alias("exposed_ns"))
        .join(roles(job).lazy(), on=("rank", "group"), how="left")
        .join(waits, on=("rank", "id"), how="left")
        .group_by(pl.coalesce("role", "label", "group", pl.lit("")).alias("group"), "collective")
        .agg(
            pl.col("rank").n_unique().alias("ranks"),
            pl.len().alias("count"),
            pl.col("total_ns", "exposed_ns").sum(),
            pl.when(pl.col("wait_ns").is_not_null().any()).then(pl.col("wait_ns").sum()),
        )
        .sort("exposed_ns", "group", "collective", descending=[True, False, False])
        .collect()
    )


def perfect(times: pl.DataFrame) -> pl.Series:
    """What each step would save at most if compute hid communication on every rank.

    A rank cannot hide more than the compute that is free of communication, and a step still takes
    as long as its longest rank.
    """
    wall, free = pl.col("wall_ns"), pl.col("compute_ns") - pl.col("both_ns")
    at_best = wall - pl.min_horizontal("exposed_ns", free)
    saved = times.group_by("step").agg((wall.max() - at_best.max()).alias("saves_ns"))
    return saved.sort("step")["saves_ns"]


def stages(matched: MatchedCollectives) -> dict[int, int]:
    """The place of each rank in its pipeline; empty for a job without one.

    Ranks that all send one way round are a ring (context parallelism), and have no stages.
    """
    sent = set(matched.collectives.select("sender", "receiver").drop_nulls().unique().iter_rows())
    lines: dict[int, set[int]] = {}  # all ranks that are linked with a rank
    for pair in sent:
        small, line = sorted((lines.setdefault(rank, {rank}) for rank in pair), key=len)
        if small is not line:
            line |= small
            lines |= dict.fromkeys(small, line)
    found: dict[int, int] = {}
    for line in {id(line): line for line in lines.values()}.values():
        one_way = not any((to, start) in sent for start, to in sent if start in line)
        if not one_way or {to for start, to in sent if start in line} != line:
            found |= {each: stage for stage, each in enumerate(sorted(line))}
    return found


def bubbles(job: Job, matched: MatchedCollectives, waits: pl.DataFrame) -> pl.DataFrame:
    """One row per rank of a pipeline and step: rank, step, stage, wall_ns, bubble_ns."""
    stage, where = stages(matched), ("rank", "start_ns", "end_ns")
    edges = pl.col("window_start_ns").alias("start_ns"), pl.col("window_end_ns").alias("end_ns")
    windows = (
        job.table("steps")
        .select("rank", "step", *edges, _stage(stage, "rank").alias("stage"))
        .drop_nulls("stage")
        .sort("rank", "step")
        .collect()
    )
    waiting, spans = _waiting(matched, waits, stage), job.table("spans")
    piped = spans.filter(pl.col("kind") != "comms", pl.col("rank").is_in([*stage]))
    work, asked = piped.select(where).collect(engine="streaming"), windows.select(where)
    bubble = covered(pl.concat([work, waiting]), asked) - covered(work, asked)
    return windows.select(
        "rank", "step", "stage",
        (pl.col("end_ns") - pl.col("start_ns")).alias("wall_ns"),
        pl.Series("bubble_ns", bubble),
    )  # fmt: skip


def _stage(stage: dict[int, int], column: str) -> pl.Expr:
    return pl.col(column).replace_strict(stage, default=None, return_dtype=pl.Int64)


def _waiting(
    matched: MatchedCollectives, waits: pl.DataFrame, stage: dict[int, int]
) -> pl.DataFrame:
    """When ranks wait for another stage, each on its own clock."""
    last = (
        waits.filter("last")
        .group_by("collective_id")
        .agg(pl.col("rank").first().alias("last_rank"))
    )
    begun = matched.arrivals.select("collective_id", "rank", "start_ns")
    return (
        waits.select("collective_id", "rank", "wait_ns")
        .filter(pl.col("wait_ns") > 0)
        .join(last, on="collective_id")
        .filter(_stage(stage, "rank") != _stage(stage, "last_rank"))
        .join(begun, on=("collective_id", "rank"))
        .select("rank", "start_ns", (pl.col("start_ns") + pl.col("wait_ns")).alias("end_ns"))
    )
