"""Wait and transfer of every collective, rank by rank, and why the late ranks were late.

How it is computed: all times are put on one clock (`clocks.py`). A rank waits from its own arrival
to that of the last rank; what remains to its end is the transfer. A rank is late if it comes after
the median arrival by more than the clocks' error. Since the end of the group's previous collective
all its ranks had the same time. What a late rank spent more of it on than the median rank did is
the cause: `compute`, `host` (the GPU was idle), `data` (idle, in the data loader), `copies`, or
`other_comms` (collectives of other groups). `earlier` says that less than half of the delay arose
since then: where collectives run under compute, ranks that come early go on, and a late rank stays
behind until the step ends. The last rank of a collective in which nobody is late
has `none` (all came within the error) or `clock` (some came earlier, but who came last lies within
the error).

A rank that is late because of other collectives is not to blame: it waited there for somebody. The
longest of these waits leads to the rank that came last there, and so on to the `root`. A delay that
arose `earlier` has the root that it had in the group's previous collective.

A send and its receive wait for each other because a pipeline takes turns. Their cause is `pipeline`
unless the rank comes later than its equals in other pipelines, and nobody is blamed for that wait:
the delay counts where pipelines meet.

When it is wrong: ranks whose files are missing may have come last. The first collective of a group
has no previous one: what delayed a rank before its step began is not in the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from foretrace.analyze.jobs.causes import causes, with_beside
from foretrace.analyze.jobs.clocks import aligned
from foretrace.analyze.jobs.roots import with_roots
from foretrace.model.intervals import Floats, Ints

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.matching import MatchedCollectives

WAITS: dict[str, pl.DataType] = {
    "collective_id": pl.UInt32(),
    "group": pl.Categorical(),
    "rank": pl.Int64(),
    "id": pl.Int64(),
    "step": pl.Int64(),
    "wait_ns": pl.Int64(),
    "transfer_ns": pl.Int64(),
    "late_ns": pl.Int64(),
    "last": pl.Boolean(),
    "cause": pl.String(),
    "error_ns": pl.Int64(),
    "caused_ns": pl.Int64(),
    "delays_ns": pl.Int64(),
    "root": pl.Int64(),
    "root_cause": pl.String(),
}


def waits(job: Job, matched: MatchedCollectives, clocks: pl.DataFrame) -> pl.DataFrame:
    """One row per arrival at a collective that several ranks recorded, by collective and rank: collective,
    group, rank, id, step, wait_ns, transfer_ns, late_ns, last, cause (of late ranks, and of the
    last), error_ns, and who is to blame.

    Wait and transfer are null where the error is longer than the collective took.
    `caused_ns` is what the other ranks waited for this one: while several have not come, they share
    the blame. `delays_ns` counts the same once, from the median arrival on, without what was late
    at the previous collective already. `root` is the rank that is the first cause, with its
    `root_cause`. These four are null for ranks in time, the first two also for a send and its
    receive.
    """
    pair = (pl.col("collective") == "send").alias("pair")
    shared = matched.shared.select("collective_id", pl.col("group").cast(pl.Categorical), pair)
    found = aligned(matched.arrivals.join(shared, on="collective_id"), clocks, "start_ns", "end_ns")
    if found.is_empty():
        return pl.DataFrame(schema=WAITS)
    found = _timed(found.join(_errors(clocks), on="rank", how="left"))
    late = (pl.col("behind_ns") > pl.col("error_ns")).fill_null(False)
    found = with_beside(found, matched).with_columns(late.alias("late"))
    why = aligned(causes(job, found), clocks, "since_ns")
    found = found.join(why, on=("collective_id", "rank"), how="left").with_columns(
        _cause(), (pl.col("delays_ns") * pl.col("new")).round()
    )
    known = pl.col("error_ns") <= pl.col("end_ns") - pl.col("start_ns")
    times = (pl.when(known).then(name) for name in ("wait_ns", "transfer_ns"))
    return (
        with_roots(found.sort("collective_id", "rank"))
        .with_columns(times)
        .select(pl.col(name).cast(kind) for name, kind in WAITS.items())
    )


def _errors(clocks: pl.DataFrame) -> pl.DataFrame:
    return clocks.select("rank", pl.col("error_ns").fill_null(0).alias("own_ns"))


def _timed(found: pl.DataFrame) -> pl.DataFrame:
    """Wait, transfer, lateness and blame, in order of collective and arrival.

    The error is that of two clocks, the rank's and the usual one of its collective.
    """
    found = found.sort("collective_id", "start_ns", "rank")
    start, own = found["start_ns"].to_numpy(), found["own_ns"].to_numpy()
    first = np.flatnonzero(np.diff(found["collective_id"].to_numpy().astype(np.int64), prepend=-1))
    size = np.diff(first, append=len(start))
    at, count = np.repeat(first, size), np.repeat(size, size)
    waiting, usual, last = np.arange(len(start)) - at, at + (count - 1) // 2, at + count - 1
    each = np.diff(start, prepend=start[0]) * (waiting > 0) / (count - waiting)
    parts = each * waiting, each * (waiting > (count - 1) // 2)
    end = found["end_ns"].to_numpy()
    moved = np.clip(start[last], start, np.maximum(start, end))  # nobody waits after its own end
    caused, delays = (np.rint(_running(part, at)).astype(np.int64) for part in parts)
    return found.with_columns(
        pl.Series("wait_ns", moved - start),
        pl.Series("transfer_ns", end - moved),
        pl.Series("late_ns", start - start[usual]),
        pl.Series("spread_ns", start[last] - start[at]),
        pl.Series("last", waiting == count - 1),
        pl.Series("error_ns", np.ceil(np.hypot(own, own[usual])).astype(np.int64)),
        pl.Series("caused_ns", caused),
        pl.Series("delays_ns", delays),
    )


def _running(values: Floats, first: Ints) -> Floats:
    """Sums from the first arrival of each collective; while k of n ranks wait, the others share it."""
    total = np.cumsum(values)
    running: Floats = total - total[first] + values[first]
    return running


def _cause() -> pl.Expr:
    """The cause of late ranks, and what is known about the last rank if it is not late."""
    apart = pl.when("pair").then(pl.lit("pipeline")).otherwise(pl.lit("clock"))
    return (
        pl.when("late").then("found_cause")
        .when(pl.col("last") & (pl.col("spread_ns") <= pl.col("error_ns"))).then(pl.lit("none"))
        .when("last").then(apart)
        .alias("cause")
    )  # fmt: skip
