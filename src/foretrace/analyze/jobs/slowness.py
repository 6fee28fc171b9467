"""Slow GPU or slow code: the kernels of a rank beside those of the ranks that waited for it.

How it is computed: kernels are equal if name and shapes are. `gpu_factor` is the time of a rank's
kernels over the time that as many cost its equals in the median. `slower` is the part of that time
in kernels that take at least half of that excess. `code_ns` is what a step takes more because the
rank runs more kernels, or others. Collectives do not count: they wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

SLOWNESS = {
    "rank": pl.Int64,
    "gpu_factor": pl.Float64,
    "slower": pl.Float64,
    "gpu_ns": pl.Int64,
    "code_ns": pl.Int64,
}
_KERNEL = ("name", "signature")


def slowness(job: Job, equals: pl.DataFrame) -> pl.DataFrame:
    """How the kernels of each `rank` compare with those of its equals (rank, equal): rank,
    gpu_factor, slower, gpu_ns and code_ns per step.
    """
    if equals.is_empty():
        return pl.DataFrame(schema=SLOWNESS)
    kernels = (
        job.table("kernels")
        .filter(pl.col("role") != "comms", pl.col("count") > 0)
        .select(
            "rank", *_KERNEL, "per_step", (pl.col("total_ns") / pl.col("count")).alias("each_ns")
        )
        .collect(engine="streaming")
    )
    kernels = kernels.with_columns(pl.col(_KERNEL).cast(pl.Categorical))
    count = equals.group_by("rank").len("equals")
    usual = (
        equals.join(kernels, left_on="equal", right_on="rank")
        .group_by("rank", *_KERNEL)
        .agg(
            pl.col("each_ns").median().alias("usual_ns"),
            pl.col("per_step").alias("counts"),
        )
        .join(count, on="rank")
        .with_columns(_usual_count().alias("usual_count"))
    )
    own = kernels.join(count.select("rank"), on="rank")
    both = own.join(usual, on=("rank", *_KERNEL), how="full", coalesce=True, nulls_equal=True)
    return _compared(both)


def _usual_count() -> pl.Expr:
    """The median count over all equals: those that lack the kernel have 0 of it."""
    lacking = pl.col("equals") - pl.col("counts").list.len()
    some = lacking * 2 < pl.col("equals")
    return pl.when(some).then(pl.col("counts").list.median()).otherwise(0.0)


def _compared(both: pl.DataFrame) -> pl.DataFrame:
    own, usual = pl.col("each_ns"), pl.col("usual_ns")
    count, usual_count = pl.col("per_step").fill_null(0), pl.col("usual_count").fill_null(0)
    same = pl.min_horizontal(count, usual_count)
    taken, would = (same * own).fill_null(0), (same * usual).fill_null(0)
    more = (count - usual_count) * pl.coalesce(own, usual)
    factor = pl.col("taken").sum() / pl.col("would").sum()
    half = 1 + (factor - 1) / 2
    slower = pl.col("would").filter(pl.col("taken") >= pl.col("would") * half).sum()
    return (
        both.with_columns(taken.alias("taken"), would.alias("would"), more.alias("more"))
        .sort("rank", *_KERNEL)  # sums of floats depend on their order
        .group_by("rank", maintain_order=True)
        .agg(
            factor.alias("gpu_factor"),
            (slower / pl.col("would").sum()).alias("slower"),
            (pl.col("taken").sum() - pl.col("would").sum()).alias("gpu_ns"),
            pl.col("more").sum().alias("code_ns"),
        )
        .select(pl.col(name).cast(kind, strict=False) for name, kind in SLOWNESS.items())
        .sort("rank")
    )
