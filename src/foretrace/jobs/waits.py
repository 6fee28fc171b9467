"""Wait and transfer of every collective, rank by rank, and why the late ranks were late.

How it is computed: all times are put on one clock (`clocks.py`). A rank waits from its own arrival
to that of the last rank; what remains to its end is the transfer. A rank is late if it comes after
the median arrival by more than the clocks' error. Since the end of the group's previous collective
all its ranks had the same time. What a late rank spent more of it on than the median rank did is
the cause: `compute`, `host` (the GPU was idle), `data` (idle, in the data loader), `copies`, or
`other_comms` (collectives of other groups). Compute under the previous collective counts as well:
ranks that came early to it have done there what a late rank still has to do. `earlier` says that
less than half of the delay arose since then. The last rank of a collective in which nobody is late
has `none` (all came within the error) or `clock` (some came earlier, but who came last lies within
the error).

A rank that is late because of other collectives is not to blame: it waited there for somebody. The
longest of these waits leads to the rank that came last there, and so on to the `root`. A delay that
arose `earlier` has the root that it had in the group's previous collective.

A send and its receive wait for each other because the schedule of the pipeline says so. Their cause
is `pipeline`.

When it is wrong: ranks whose files are missing may have come last. The first collective of a group
has no previous one: what delayed a rank before its step began is not in the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from foretrace.jobs.clocks import aligned
from foretrace.jobs.roots import with_roots
from foretrace.model.intervals import Floats, Ints

if TYPE_CHECKING:
    from foretrace.jobs.job import Job
    from foretrace.jobs.matching import Meetings

OWN_CAUSES = ("compute", "host", "data", "copies")
CAUSES = (*OWN_CAUSES, "other_comms")
WAITS = {
    "meeting": pl.UInt32,
    "group": pl.Categorical,
    "rank": pl.Int64,
    "id": pl.Int64,
    "step": pl.Int64,
    "wait_ns": pl.Int64,
    "transfer_ns": pl.Int64,
    "late_ns": pl.Int64,
    "last": pl.Boolean,
    "cause": pl.String,
    "error_ns": pl.Int64,
    "caused_ns": pl.Int64,
    "delays_ns": pl.Int64,
    "root": pl.Int64,
    "root_cause": pl.String,
}


def waits(job: Job, meetings: Meetings, clocks: pl.DataFrame) -> pl.DataFrame:
    """One row per arrival at a meeting that several ranks recorded, by meeting and rank: meeting,
    group, rank, id, step, wait_ns, transfer_ns, late_ns, last, cause (of late ranks, and of the
    last), error_ns, and who is to blame.

    `caused_ns` is what the other ranks waited for this one: while several have not come, they share
    the blame. `delays_ns` counts the same once, from the median arrival on. `root` is the rank that
    is the first cause, with its `root_cause`. These four are null for ranks in time.
    """
    pair = (pl.col("collective") == "send").alias("pair")
    shared = meetings.shared.select("meeting", pl.col("group").cast(pl.Categorical), pair)
    found = aligned(meetings.arrivals.join(shared, on="meeting"), clocks, "start_ns", "end_ns")
    if found.is_empty():
        return pl.DataFrame(schema=WAITS)
    found = _timed(found.join(_errors(clocks), on="rank", how="left"))
    late = (pl.col("late_ns") > pl.col("error_ns")).alias("late")
    found = found.with_columns(late)
    causes = aligned(_causes(job, found), clocks, "since_ns")
    found = found.join(causes, on=("meeting", "rank"), how="left").with_columns(_cause())
    return with_roots(found.sort("meeting", "rank")).select(
        pl.col(name).cast(kind) for name, kind in WAITS.items()
    )


def _errors(clocks: pl.DataFrame) -> pl.DataFrame:
    return clocks.select("rank", pl.col("error_ns").fill_null(0).alias("own_ns"))


def _timed(found: pl.DataFrame) -> pl.DataFrame:
    """Wait, transfer, lateness and blame, in order of meeting and arrival.

    The error is that of two clocks, the rank's and the usual one of its meeting.
    """
    found = found.sort("meeting", "start_ns", "rank")
    start, own = found["start_ns"].to_numpy(), found["own_ns"].to_numpy()
    first = np.flatnonzero(np.diff(found["meeting"].to_numpy().astype(np.int64), prepend=-1))
    size = np.diff(first, append=len(start))
    at, count = np.repeat(first, size), np.repeat(size, size)
    waiting, usual, last = np.arange(len(start)) - at, at + (count - 1) // 2, at + count - 1
    each = np.diff(start, prepend=start[0]) * (waiting > 0) / (count - waiting)
    parts = each * waiting, each * (waiting > (count - 1) // 2)
    caused, delays = (np.rint(_running(part, at)).astype(np.int64) for part in parts)
    return found.with_columns(
        pl.Series("wait_ns", start[last] - start),
        pl.Series("transfer_ns", found["end_ns"].to_numpy() - start[last]),
        pl.Series("late_ns", start - start[usual]),
        pl.Series("spread_ns", start[last] - start[at]),
        pl.Series("last", waiting == count - 1),
        pl.Series("error_ns", np.ceil(np.hypot(own, own[usual])).astype(np.int64)),
        pl.Series("caused_ns", caused),
        pl.Series("delays_ns", delays),
    )


def _running(values: Floats, first: Ints) -> Floats:
    """Sums from the first arrival of each meeting; while k of n ranks wait, the others share it."""
    total = np.cumsum(values)
    running: Floats = total - total[first] + values[first]
    return running


def _causes(job: Job, found: pl.DataFrame) -> pl.DataFrame:
    """What each late arrival spent more time on than the median of its meeting."""
    met = found.filter("late").select("meeting").unique()
    asked = found.join(met, on="meeting").select("meeting", "rank", "id", "late", "late_ns").lazy()
    rows = _spent(job).join(asked, on=("rank", "id")).collect(engine="streaming")
    spent = (*CAUSES, "so_far")
    usual = rows.group_by("meeting").agg(pl.col(spent).quantile(0.5, "lower").name.prefix("usual_"))
    excess = (
        rows.filter("late")
        .join(usual, on="meeting")
        .with_columns(pl.col(name) - pl.col(f"usual_{name}") for name in spent)
    )
    # a rank that is late for another reason does under this collective what others did before it
    excess = excess.with_columns(pl.min_horizontal("compute", "so_far").alias("compute"))
    most = pl.max_horizontal(CAUSES)
    first = pl.coalesce(pl.when(pl.col(name) == most).then(pl.lit(name)) for name in CAUSES)
    explained = pl.sum_horizontal(pl.col(CAUSES).clip(0)) * 2 >= pl.col("late_ns")
    found_cause = pl.when(explained).then(first).otherwise(pl.lit("earlier")).alias("found_cause")
    return excess.select("meeting", "rank", "since_ns", found_cause)


def _spent(job: Job) -> pl.LazyFrame:
    """What ranks did between the starts of two collectives of a group, outside the first of them
    but for compute; `so_far` is compute since the first one in the step.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    under = (length - pl.col("alone_ns")).shift(1).over("rank", "group", order_by="order")
    compute = pl.col("compute_ns") + under.fill_null(0)
    return (
        job.table("collectives")
        .with_columns(compute.alias("compute"))
        .select(
            "rank", "id", "since_ns", "compute",
            (pl.col("idle_ns") - pl.col("data_ns")).alias("host"),
            pl.col("data_ns").alias("data"),
            pl.col("copy_ns").alias("copies"),
            pl.col("comms_ns").alias("other_comms"),
            pl.col("compute").cum_sum().over("rank", "group", "step", order_by="order")
            .alias("so_far"),
        )
    )  # fmt: skip


def _cause() -> pl.Expr:
    """The cause of late ranks, and what is known about the last rank if it is not late."""
    within = pl.when(pl.col("spread_ns") > pl.col("error_ns")).then(pl.lit("clock"))
    told = pl.when("late").then("found_cause").when("last").then(within.otherwise(pl.lit("none")))
    waits_in_turn = pl.col("pair") & (pl.col("late") | pl.col("last"))
    return pl.when(waits_in_turn).then(pl.lit("pipeline")).otherwise(told).alias("cause")
