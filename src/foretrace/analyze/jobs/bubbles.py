"""Pipeline bubbles: how long the ranks of a stage do nothing because another stage is not ready.

What it shows: per rank and step, the time in which it waits for a rank of another stage, in a send,
a receive or a collective of several stages, and neither computes nor copies.

How it is computed: ranks that send to or receive from each other form a pipeline; their order in it
is their stage. The waits in which a rank of another stage came last are put together, and the time
under which kernels or copies run is taken away.

When it is wrong: two ranks that exchange data (context parallelism) look like a pipeline of two
stages. A pipeline without sends and receives, and a wait on the host, are not seen.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from foretrace.model.intervals import IntervalUnion

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.matching import Meetings


def stages(meetings: Meetings) -> dict[int, int]:
    """The place of each rank in its pipeline; empty for a job without one.

    Ranks that all send one way round are a ring (context parallelism), and have no stages.
    """
    sent = set(meetings.meetings.select("sender", "receiver").drop_nulls().unique().iter_rows())
    peers = defaultdict(set)
    for sender, receiver in sent:
        peers[sender].add(receiver)
        peers[receiver].add(sender)
    found: dict[int, int] = {}
    for rank in sorted(peers):
        if rank not in found:
            line = _line(rank, peers)
            one_way = not any((to, start) in sent for start, to in sent if start in line)
            ring = one_way and {to for start, to in sent if start in line} == line
            found |= {each: stage for stage, each in enumerate(sorted(line))} if not ring else {}
    return found


def _line(rank: int, peers: dict[int, set[int]]) -> set[int]:
    """All ranks that are linked with a rank."""
    found, new = {rank}, [rank]
    while new:
        more = peers[new.pop()] - found
        found |= more
        new += more
    return found


def bubbles(job: Job, meetings: Meetings, waits: pl.DataFrame) -> pl.DataFrame:
    """One row per rank of a pipeline and step: rank, step, stage, wall_ns, bubble_ns."""
    stage = stages(meetings)
    windows = (
        job.table("steps")
        .select("rank", "step", "window_start_ns", "window_end_ns")
        .with_columns(_stage(stage, "rank").alias("stage"))
        .drop_nulls("stage")
        .sort("rank", "step")
        .collect()
    )
    waiting = _waiting(meetings, waits, stage)
    parts = [_bubbles(job, each, waiting) for each in windows.partition_by("step")]
    empty = windows.with_columns(wall_ns=pl.lit(0, pl.Int64), bubble_ns=pl.lit(0, pl.Int64)).clear()
    found = pl.concat([empty, *parts]).drop("window_start_ns", "window_end_ns")
    return found.sort("rank", "step")


def _stage(stage: dict[int, int], column: str) -> pl.Expr:
    return pl.col(column).replace_strict(stage, default=None, return_dtype=pl.Int64)


def _waiting(meetings: Meetings, waits: pl.DataFrame, stage: dict[int, int]) -> pl.DataFrame:
    """When ranks wait for another stage, each on its own clock."""
    last = waits.filter("last").group_by("meeting").agg(pl.col("rank").first().alias("last_rank"))
    return (
        waits.select("meeting", "rank", "wait_ns")
        .filter(pl.col("wait_ns") > 0)
        .join(last, on="meeting")
        .filter(_stage(stage, "rank") != _stage(stage, "last_rank"))
        .join(meetings.arrivals.select("meeting", "rank", "start_ns"), on=("meeting", "rank"))
        .select("rank", "start_ns", (pl.col("start_ns") + pl.col("wait_ns")).alias("end_ns"))
    )


def _bubbles(job: Job, windows: pl.DataFrame, waiting: pl.DataFrame) -> pl.DataFrame:
    """The bubbles of one step on all ranks, whose times are laid end to end on one axis."""
    edges = windows.with_columns(
        wall_ns=pl.col("window_end_ns") - pl.col("window_start_ns")
    ).with_columns(lane=pl.col("wall_ns").cum_sum() - pl.col("wall_ns") - pl.col("window_start_ns"))
    spans = (
        job.table("spans").filter(pl.col("kind") != "comms").select("rank", "start_ns", "end_ns")
    )
    wait, work = _laid(waiting.lazy(), edges), _laid(spans, edges)
    either = IntervalUnion(*(np.concatenate(pair) for pair in zip(wait, work, strict=True)))
    begin = (edges["window_start_ns"] + edges["lane"]).to_numpy()
    end = begin + edges["wall_ns"].to_numpy()
    bubble = either.between(begin, end) - IntervalUnion(*work).between(begin, end)
    return edges.drop("lane").with_columns(pl.Series("bubble_ns", bubble))


def _laid(frame: pl.LazyFrame, edges: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends inside the windows, on the common axis and in order."""
    start = pl.max_horizontal("start_ns", "window_start_ns")
    end = pl.min_horizontal("end_ns", "window_end_ns")
    found = (
        frame.join(edges.lazy(), on="rank")
        .select((start + pl.col("lane")).alias("start"), (end + pl.col("lane")).alias("end"))
        .filter(pl.col("end") > pl.col("start"))
        .sort("start")
        .collect()
    )
    return found["start"].to_numpy(), found["end"].to_numpy()
