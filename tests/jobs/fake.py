"""Jobs made by hand: the tables of a job without files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from foretrace.jobs.whole_job import JobGroup, RankFacts

COLLECTIVES = {
    "rank": pl.Int64, "id": pl.Int64, "step": pl.Int64, "group": pl.String,
    "group_size": pl.Int64, "seq": pl.Int64, "comms_id": pl.String, "order": pl.Int64,
    "collective": pl.String, "dtype": pl.String, "in_bytes": pl.Int64, "out_bytes": pl.Int64,
    "message_bytes": pl.Int64, "peer": pl.Int64, "on_host": pl.Boolean, "stream": pl.Int64,
    "launch_ns": pl.Int64, "ready_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64, "since_ns": pl.Int64,
    "compute_ns": pl.Int64, "copy_ns": pl.Int64, "comms_ns": pl.Int64, "idle_ns": pl.Int64,
    "data_ns": pl.Int64, "alone_ns": pl.Int64,
}  # fmt: skip
BASE_NS = 1_794_000_000_000_000_000


def facts(rank: int, groups: Iterable[JobGroup] = (), host: str = "", **more: Any) -> RankFacts:
    """What a file says about its rank."""
    given: dict[str, Any] = {
        "world_size": None, "job": "job", "pid": None, "devices": ("NVIDIA H100",),
        "has_time_base": True, "start_ns": BASE_NS, "end_ns": BASE_NS + 10**9, "file_bytes": 1,
        "events": 1, "steps": (), "kernel_signature": "",
    } | more  # fmt: skip
    return RankFacts(path=f"rank{rank}.json", rank=rank, host=host, groups=tuple(groups), **given)


class FakeJob:
    """What the analyses take from a `Job`."""

    def __init__(self, found: Iterable[RankFacts], **tables: pl.DataFrame) -> None:
        self.facts = self.members = tuple(found)
        self.tables = tables

    def table(self, name: str) -> pl.LazyFrame:
        return self.tables[name].lazy()


def collectives(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """A table of collectives; ids and order follow the rows of each rank and group."""
    given = [
        {"group": "0", "collective": "all-reduce", "dtype": "BFloat16", "message_bytes": 1 << 20,
         "on_host": False, "stream": 20, "start_ns": BASE_NS, "end_ns": BASE_NS + 1000, "step": 1}
        | row for row in rows
    ]  # fmt: skip
    frame = pl.DataFrame(given, COLLECTIVES)
    count = pl.int_range(pl.len(), dtype=pl.Int64)
    return frame.with_columns(
        pl.coalesce("id", count.over("rank")).alias("id"),
        pl.coalesce("order", count.over("rank", "group")).alias("order"),
    )
