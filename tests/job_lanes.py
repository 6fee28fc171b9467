"""Lanes of a made-up job: in each step every rank computes, then meets the others once."""

from __future__ import annotations

import polars as pl

from foretrace.jobs.lanes import JobLanes
from job_documents import MS

BASE = 1_794_000_000_000_000_000


def job_lanes(ranks: int = 4, steps: int = 3, *, slow: int = 3, late_ms: float = 2) -> JobLanes:
    """Rank `slow` computes `late_ms` longer; the others wait so long."""
    late, rows, extents = round(late_ms * MS), list[tuple[object, ...]](), []
    for step in range(steps):
        start = BASE + step * (10 * MS + late)
        came, end = start + 8 * MS + late, start + 10 * MS + late
        extents.append((step, start, end))
        for rank in range(ranks):
            done = came if rank == slow else came - late
            rows.append((rank, step, "compute", 7, "gemm", start, done, None, None))
            if rank != slow:
                rows.append((rank, step, "wait", 20, "all-reduce", done, came, step, False))
            rows.append((rank, step, "transfer", 20, "all-reduce", came, end, step, rank == slow))
    schema = {
        "rank": pl.Int64,
        "step": pl.Int64,
        "kind": pl.String,
        "stream": pl.Int64,
        "name": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "collective_id": pl.UInt32,
        "last": pl.Boolean,
    }
    spans = pl.DataFrame(rows, schema, orient="row").sort("rank", "start_ns")
    times = {"step": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
    hosts = {rank: f"node-{rank // 2}" for rank in range(ranks)}
    extent = pl.DataFrame(extents, times, orient="row")
    return JobLanes(tuple(range(ranks)), hosts, spans, extent, 900)
