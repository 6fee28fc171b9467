"""Why a rank came late to a collective: what it did since, beside those that it compares with.

A rank compares with the other ranks of its collective. For a send or a receive that says nothing: the
two sides have different work, and wait for each other because the pipeline takes turns. There it
compares with the same side of the same transfer in the other pipelines of the job: the same number
in the step, between the same stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foretrace.schema.jobs import WITHOUT_STEPS

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.matching import MatchedCollectives

OWN_CAUSES = ("compute", "host", "data", "copies")
CAUSES = (*OWN_CAUSES, "other_comms")


def with_beside(found: pl.DataFrame, matched: MatchedCollectives) -> pl.DataFrame:
    """Arrivals with `beside`, which those share that compare with each other, and `behind_ns`: how
    much later a rank came than the median of them. Both are null where nothing compares.
    """
    pairs = _pairs(matched)
    if pairs.is_empty():
        return found.with_columns(
            pl.when(~pl.col("pair")).then("collective_id").alias("beside"),
            pl.when(~pl.col("pair")).then("late_ns").alias("behind_ns"),
        )
    found = found.join(pairs, on=("collective_id", "rank"), how="left")
    usual = found.filter(pl.col("set").is_not_null()).group_by("set").agg(
        pl.col("start_ns").quantile(0.5, "lower").cast(pl.Int64).alias("usual_ns")
    )  # fmt: skip
    behind = pl.col("start_ns") - pl.col("usual_ns")
    return found.join(usual, on="set", how="left").with_columns(
        pl.when("pair").then("set").otherwise("collective_id").alias("beside"),
        pl.when("pair").then(behind).otherwise("late_ns").alias("behind_ns"),
    )


def _pairs(matched: MatchedCollectives) -> pl.DataFrame:
    """The two arrivals of each send with `set`: the same side of the same transfer elsewhere."""
    both = matched.collectives.filter(pl.col("collective") == "send", pl.col("present") == 2)
    stages = matched.members.with_columns(
        pl.int_range(pl.len()).over("group").alias("stage"),
        pl.len().over("group").alias("stages"),
    )
    nth = pl.int_range(pl.len()).over("group", "sender", "receiver", "step")
    complete = pl.col("stages") == pl.col("group_size")  # else a stage is known by its place alone
    placed = (
        both.with_columns(nth.alias("nth"))
        .join(stages, left_on=("group", "sender"), right_on=("group", "rank"))
        .join(stages, left_on=("group", "receiver"), right_on=("group", "rank"), suffix="_to")
        .filter(complete)
    )
    key = ("stages", "stage", "stage_to", "step", "nth")
    sets = placed.group_by(key).len("pairs").filter(pl.col("pairs") > 1).sort(key)
    first = matched.collectives.height  # numbers that no collective has
    sets = sets.with_columns(pl.int_range(pl.len()).alias("set") * 2 + first)
    known = placed.join(sets, on=key)
    sides = [
        known.select("collective_id", pl.col(side).alias("rank"), (pl.col("set") + n).cast(pl.UInt32))
        for n, side in enumerate(("sender", "receiver"))
    ]
    return pl.concat(sides)


def causes(job: Job, found: pl.DataFrame) -> pl.DataFrame:
    """What each late arrival spent more time on than the median of those beside it: collective, rank,
    since_ns, found_cause, and `new`: the part of the delay that arose since then.
    """
    some = found.filter("late").select("beside").unique()
    wanted = ("collective_id", "beside", "rank", "id", "group", "step", "late", "behind_ns")
    asked = found.join(some, on="beside").select(wanted).lazy()
    rows = _spent(job).join(asked, on=("rank", "id")).collect(engine="streaming")
    usual = rows.group_by("beside").agg(
        pl.col(CAUSES).quantile(0.5, "lower").name.prefix("usual_"),
        pl.col("under").quantile(0.5, "higher").alias("usual_under"),  # of two, the early rank's
    )
    excess = (
        rows.filter("late")
        .join(usual, on="beside")
        .with_columns(pl.col(name) - pl.col(f"usual_{name}") for name in CAUSES)
    )
    behind, explained = pl.col("behind_ns"), pl.sum_horizontal(pl.col(CAUSES).clip(0))
    new = pl.min_horizontal(explained, behind - pl.col("carried_ns")).clip(0) / behind
    most = pl.max_horizontal(CAUSES)
    first = pl.coalesce(pl.when(pl.col(name) == most).then(pl.lit(name)) for name in CAUSES)
    cause = pl.when(pl.col("new") >= 0.5).then(first).otherwise(pl.lit("earlier"))
    return (
        _with_carried(excess)
        .with_columns(new.clip(0, 1).alias("new"))
        .select("collective_id", "rank", "since_ns", "new", cause.alias("found_cause"))
    )


def _with_carried(late: pl.DataFrame) -> pl.DataFrame:
    """`carried_ns`: the lead of the others, which computed under earlier collectives of the step
    while they waited for this rank. It may come as late again without a new reason.
    """
    lead = pl.min_horizontal("behind_ns", pl.col("usual_under") - pl.col("under")).clip(0)
    within = ("rank", "group", "step")
    before = lead.cum_max().shift(1).over(within, order_by="since_ns").fill_null(0)
    last = lead.shift(1).over(within, order_by="since_ns").fill_null(0)
    steps = pl.col("step").fill_null(WITHOUT_STEPS) != WITHOUT_STEPS
    return late.with_columns(pl.when(steps).then(before).otherwise(last).alias("carried_ns"))


def _spent(job: Job) -> pl.LazyFrame:
    """What ranks did from the end of the group's previous collective to the start of this one, and
    for how long compute ran under this one.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    return job.table("collectives").select(
        "rank", "id", "since_ns",
        pl.col("compute_ns").alias("compute"),
        (pl.col("idle_ns") - pl.col("data_ns")).alias("host"),
        pl.col("data_ns").alias("data"),
        pl.col("copy_ns").alias("copies"),
        pl.col("comms_ns").alias("other_comms"),
        (length - pl.col("alone_ns")).alias("under"),
    )  # fmt: skip
