"""Chosen ranks of a job side by side on one clock: what each does, and where it waits for others.

A collective is two spans: it waits until the last rank came, then it transfers. Where no other rank
recorded it, it is one span of communication. Times are on the clock of the lowest rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.jobs.clocks import aligned
from foretrace.jobs.waits import timed_collectives

if TYPE_CHECKING:
    from foretrace.jobs.documents import JobDocument
    from foretrace.jobs.whole_job import Job

MOST_RANKS = 64  # side by side; more cannot be read
KINDS = ("compute", "wait", "transfer", "comms", "copy", "data", "sync")
_SPAN = ("rank", "step", "kind", "stream", "name", "start_ns", "end_ns")
_HOST = ("data", "sync")


class JobLanes(Struct, frozen=True):
    """`spans`: rank, step, kind (one of `KINDS`), stream (null on the host), name, start_ns,
    end_ns, collective_id, and `last`: whether this rank arrived last; ordered by rank and start.

    `steps`: step, start_ns, end_ns, from the first to the last of the ranks. `error_ns` is how far
    the clocks of these ranks may be wrong, and None where one of them could not be `fitted`.
    """

    ranks: tuple[int, ...]
    hosts: dict[int, str]
    spans: pl.DataFrame
    steps: pl.DataFrame
    error_ns: int | None

    def name(self, rank: int, most: int | None = None) -> str:
        """`rank 3 (node-1)`; the host only where the files name it, up to `most` letters of it."""
        host = self.hosts.get(rank, "")[:most]
        return f"rank {rank} ({host})" if host else f"rank {rank}"


def default_ranks(found: JobDocument) -> frozenset[int]:
    """The rank that delays the others, and the median rank; without a delay the first few."""
    ranks = found.ranks
    late = max(ranks, key=lambda each: each.delays_ns or 0)
    others = sorted(  # by what a rank does beside waiting
        (each for each in ranks if each is not late),
        key=lambda each: ((each.wall_ns or 0) - (each.exposed_wait_ns or 0), each.rank),
    )
    if late.delays_ns and others:
        return frozenset({late.rank, others[len(others) // 2].rank})
    waits_most = max(ranks, key=lambda each: each.wait_ns or 0)
    chosen = {each.rank for each in (ranks[0], late, waits_most)}
    more = (each.rank for each in ranks if each.rank not in chosen)
    return frozenset([*chosen, *more][:4])  # ranks that a page shows where none are chosen


def lanes(job: Job, ranks: frozenset[int]) -> JobLanes:
    """Lay these ranks side by side; `UsageError` where the job does not have one of them."""
    hosts = {each.rank or 0: each.host for each in job.members}
    if absent := sorted(ranks - hosts.keys()):
        many = f"it has {len(hosts):,}, from {min(hosts)} to {max(hosts)}"
        raise UsageError(f"no rank {absent[0]} in {job.path}: {many}")
    if len(ranks) > MOST_RANKS:
        raise UsageError(f"{len(ranks):,} ranks side by side; choose at most {MOST_RANKS}")
    _, clocks, waited = timed_collectives(job)
    mine = pl.col("rank").is_in(sorted(ranks))
    found = pl.concat(
        [_work(job, mine), _collectives(job, mine, waited.filter(mine))], how="diagonal"
    )
    spans = aligned(found, clocks, "start_ns", "end_ns").sort("rank", "start_ns", "end_ns")
    windows = job.table("steps").filter(mine).collect()
    steps = (
        aligned(windows, clocks, "window_start_ns", "window_end_ns")
        .group_by("step")
        .agg(
            pl.col("window_start_ns").min().alias("start_ns"),
            pl.col("window_end_ns").max().alias("end_ns"),
        )
        .sort("start_ns")
    )
    told = clocks.filter(mine)
    error = told["error_ns"].max() if told["fitted"].all() else None
    return JobLanes(tuple(sorted(ranks)), hosts, spans, steps, error)  # type: ignore[arg-type]


def _work(job: Job, mine: pl.Expr) -> pl.DataFrame:
    """What is no communication: compute and copies, and what the launching thread waits for."""
    work = job.table("spans").filter(mine, pl.col("kind") != "comms").select(_SPAN)
    host = job.table("host").filter(mine, pl.col("kind").is_in(_HOST))
    return pl.concat([work.collect(), host.collect()], how="diagonal_relaxed").select(_SPAN)


def _collectives(job: Job, mine: pl.Expr, arrived: pl.DataFrame) -> pl.DataFrame:
    """Each collective as its wait and its transfer."""
    told = arrived.select("rank", "id", "collective_id", "last", "wait_ns")
    rows = job.table("collectives").filter(mine).collect().join(told, on=("rank", "id"), how="left")
    known = pl.col("wait_ns").is_not_null()
    came = pl.min_horizontal(pl.col("start_ns") + pl.col("wait_ns"), pl.col("end_ns"))
    came = pl.when(known).then(came)
    rows = rows.with_columns(pl.col("collective").alias("name"), came.alias("came_ns"))
    wait = rows.filter(pl.col("came_ns") > pl.col("start_ns")).with_columns(
        pl.lit("wait").alias("kind"), pl.col("came_ns").alias("end_ns")
    )
    rest = rows.with_columns(
        pl.when(known).then(pl.lit("transfer")).otherwise(pl.lit("comms")).alias("kind"),
        pl.coalesce("came_ns", "start_ns").alias("start_ns"),
    )
    stream = pl.when(~pl.col("on_host")).then("stream").alias("stream")
    return pl.concat([wait, rest]).with_columns(stream).select(*_SPAN, "collective_id", "last")
