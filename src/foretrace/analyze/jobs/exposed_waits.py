"""The exposed part of each wait: where the rank that waits computes nothing meanwhile.

A collective on a stream of its own can wait under compute, which costs the rank nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from foretrace.analyze.jobs.stragglers import delays
from foretrace.model.intervals import IntervalUnion, Ints

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job


def with_exposed(job: Job, waited: pl.DataFrame) -> pl.DataFrame:
    """The waits with a column `exposed_wait_ns`, null where the wait is not known."""
    begun = job.table("collectives").select("rank", "id", "start_ns").collect(engine="streaming")
    rows = waited.join(begun, on=("rank", "id"), how="left", maintain_order="left")
    work = (
        job.table("spans").filter(pl.col("kind") == "compute").select("rank", "start_ns", "end_ns")
    )
    compute = work.collect(engine="streaming")
    if compute.is_empty() or rows.is_empty():
        return waited.with_columns(pl.col("wait_ns").alias("exposed_wait_ns"))
    # ranks lie end to end on one axis: each from its own first moment, as clocks may be years apart
    length = pl.col("wait_ns").fill_null(0)
    ends = rows.select("rank", "start_ns", (pl.col("start_ns") + length).alias("end_ns"))
    extent = pl.concat([compute, ends]).group_by("rank").agg(
        pl.col("start_ns").min().alias("first"), pl.col("end_ns").max().alias("last")
    )  # fmt: skip
    room = pl.col("last") - pl.col("first") + 1
    shift = extent.sort("rank").select("rank", room.cum_sum() - room - pl.col("first"))
    shift = shift.rename({"last": "shift"})
    busy, wait = (_shifted(frame, shift) for frame in (compute, ends))
    under = IntervalUnion(*busy).between(*wait)
    exposed = (pl.col("wait_ns") - pl.Series(under)).clip(0)
    return waited.with_columns(exposed.alias("exposed_wait_ns"))


def exposed_delays(
    waited: pl.DataFrame, times: pl.DataFrame, homes: Mapping[int, int] | None = None
) -> dict[int, int]:
    """How much of what the others wait for each rank, as `delays_ns` counts it, a step can feel.

    A wait under compute holds up the collectives after it, and those may be exposed. So a step
    feels at most the communication that the usual rank has in it without compute. `homes` puts
    ranks together: the ranks of a host under its lowest.
    """
    root = pl.col("root") if homes is None else pl.col("root").replace(homes)
    exposed = times.group_by("step").agg(pl.col("exposed_ns").quantile(0.5, "higher"))
    felt = pl.min_horizontal("delays_ns", pl.col("exposed_ns").cast(pl.Int64))
    by_step = delays(waited.with_columns(root)).join(exposed, on="step", how="left")
    total = by_step.group_by("rank").agg(felt.sum())
    return dict(total.select("rank", "delays_ns").iter_rows())


def _shifted(frame: pl.DataFrame, shift: pl.DataFrame) -> list[Ints]:
    moved = frame.join(shift, on="rank", how="left", maintain_order="left")
    return [(moved[name] + moved["shift"]).to_numpy() for name in ("start_ns", "end_ns")]
