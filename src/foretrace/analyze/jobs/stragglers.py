"""Which ranks and hosts make the others wait, and what is slow there: the GPU, the code, the host.

How it is computed: `waits.py` gives the root and the cause of every late arrival.
`made_others_wait_ns` is the sum over the job of what all other ranks waited for a rank.
`delays_ns` counts a delay once: from the median arrival on, and in the group where it was longest,
since a rank that is late in its tensor-parallel group makes that whole group late elsewhere.

A rank that delays the job by at least 1% has a slow part: `gpu`, `code` or `host`. If compute
delays it, its kernels are compared with those of the group in which it caused most waits. Kernels
are equal if name and shapes are; collectives do not count. `gpu_factor` is the time of the rank's
kernels over the median time of the same kernels on its equals, and `slower` the part of that time
in kernels that take at least half of the excess. `code_ns` is what more or other kernels add to a
step.

When it is wrong: a kernel whose time depends on the data, as with experts of unequal load, is the
same kernel with another time. If few kernels are affected, `slow` stays empty. If one part of a
delay shows in one group and the rest in another, as in pipelines of sharded stages, only the longer
part counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from foretrace.analyze.jobs.waits import OWN_CAUSES
from foretrace.analyze.jobs.whole_job import Job, columns

SLOWNESS = columns("rank gpu_factor:f slower:f gpu_ns code_ns")
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
    # of all equals: those that lack the kernel have 0 of it
    some = (pl.col("equals") - pl.col("counts").list.len()) * 2 < pl.col("equals")
    median = pl.col("counts").list.median()
    usual = (
        equals.join(kernels, left_on="equal", right_on="rank")
        .group_by("rank", *_KERNEL)
        .agg(
            pl.col("each_ns").median().alias("usual_ns"),
            pl.col("per_step").alias("counts"),
        )
        .join(count, on="rank")
        .with_columns(pl.when(some).then(median).otherwise(0.0).alias("usual_count"))
    )
    own = kernels.join(count.select("rank"), on="rank")
    both = own.join(usual, on=("rank", *_KERNEL), how="full", coalesce=True, nulls_equal=True)
    return _compared(both)


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


CAUSES = (*OWN_CAUSES, "other_comms", "earlier")
NOTABLE = 0.01  # of the time: the steps of a recorded training run on one H200 differ by 0.3%
_MOST_OF_HOST = 0.75
_CLEAR = 0.25  # of a delay: a cause on the rank itself comes before those that lead elsewhere
_SLOWER = 1.02  # kernel times of recorded models on one H200 differ by up to 0.7% between steps
_BROAD = 0.6  # of the kernel time: a GPU with a low clock slows all but what waits for memory


def stragglers(waits: pl.DataFrame, job: Job) -> pl.DataFrame:
    """One row per rank, those that made the others wait most first: rank, host, times_last,
    made_others_wait_ns, delays_ns, cause, causes (shares), slow, and the evidence for it:
    gpu_factor, slower, gpu_ns, code_ns.

    `times_last` counts the collectives in which no rank arrived later, within the clocks' error,
    and the rank itself is the root.
    """
    homes = [(each.rank, each.host) for each in job.members]
    ranks = pl.DataFrame(homes, {"rank": pl.Int64, "host": pl.String}, orient="row")
    counted = _counted(waits)
    # the wait of the last rank is not known where its stay is within the clocks' error
    no_later = pl.col("last") | (pl.col("wait_ns") <= pl.col("error_ns")).fill_null(False)
    last = counted.filter(no_later, pl.col("root") == pl.col("rank"))
    counts = ("times_last", "made_others_wait_ns", "delays_ns")
    found = (
        ranks.join(last.group_by("rank").len("times_last"), on="rank", how="left")
        .join(_caused(counted), left_on="rank", right_on="root", how="left")
        .join(_once(counted), left_on="rank", right_on="root", how="left")
        .join(slowness(job, _equals(waits, counted)), on="rank", how="left")
        .with_columns(pl.col(counts).cast(pl.Int64).fill_null(0), pl.col("cause").fill_null(""))
    )
    slow = _slow(_length(job), waits["step"].n_unique())
    return found.with_columns(slow.alias("slow")).sort(
        "made_others_wait_ns", "rank", descending=(True, False)
    )


def _length(job: Job) -> float:
    """How long the usual rank was recorded, in the chosen steps."""
    span = pl.col("window_end_ns") - pl.col("window_start_ns")
    by_rank = job.table("steps").group_by("rank").agg(span.sum().alias("length"))
    return float(by_rank.select(pl.col("length").median()).collect().item() or 0)


def _slow(length: float, steps: int) -> pl.Expr:
    """What the evidence says is slow: it explains at least a quarter of the delay."""
    compute, extra, more = pl.col("cause") == "compute", pl.col("code_ns"), pl.col("gpu_ns")
    enough = pl.col("delays_ns") / max(steps, 1) / 4
    broad = (pl.col("gpu_factor") >= _SLOWER) & (pl.col("slower") >= _BROAD)
    told = (
        pl.when(compute & broad & (more >= extra) & (more >= enough)).then(pl.lit("gpu"))
        .when(compute & (extra > more) & (extra >= enough)).then(pl.lit("code"))
        .when(pl.col("cause") == "host").then(pl.lit("host"))
        .otherwise(pl.lit(""))
    )  # fmt: skip
    return pl.when(pl.col("delays_ns") >= NOTABLE * length).then(told).otherwise(pl.lit(""))


def hosts(waits: pl.DataFrame, job: Job, ranks: pl.DataFrame) -> pl.DataFrame:
    """One row per host that files name, those that made the others wait most first: host, ranks,
    times_last, made_others_wait_ns, delays_ns, cause, slow. `ranks` are its `stragglers`.

    A host is slow if it delays the job by at least 1%, and if at least three quarters of its ranks
    make others wait no less than a quarter of what the worst of them does: several GPUs, one host.
    """
    found = ranks.filter(pl.col("host") != "")
    homes = found.select("host", pl.col("rank").alias("root"))
    counted = _counted(waits).join(homes, on="root").drop("root").rename({"host": "root"})
    waited = pl.col("made_others_wait_ns")
    share = (waited * 4 >= waited.max()).mean()
    enough = pl.col("delays_ns") >= NOTABLE * _length(job)
    return (
        found.group_by("host")
        .agg(
            pl.len().cast(pl.Int64).alias("ranks"),
            pl.col("times_last", "made_others_wait_ns").sum(),
            pl.col("cause")
            .sort_by("made_others_wait_ns", "rank", descending=(True, False))
            .first(),
            ((share >= _MOST_OF_HOST) & (pl.len() > 1) & (waited.max() > 0)).alias("slow"),
        )
        .join(_once(counted), left_on="host", right_on="root", how="left")
        .with_columns(pl.col("delays_ns").fill_null(0))
        .with_columns(pl.col("slow") & enough)
        .sort("made_others_wait_ns", "host", descending=(True, False))
    )


def _counted(waits: pl.DataFrame) -> pl.DataFrame:
    """The late arrivals that count; a pipeline that takes turns delays no rank."""
    return waits.filter(pl.col("caused_ns").is_not_null(), pl.col("root_cause") != "pipeline")


def _caused(counted: pl.DataFrame) -> pl.DataFrame:
    """By root: the waits of others, and the share of each cause."""
    total = pl.col("caused_ns").sum()
    shares = [
        (pl.col("caused_ns").filter(pl.col("root_cause") == cause).sum() / total).alias(cause)
        for cause in CAUSES
    ]
    found = counted.group_by("root").agg(total.alias("made_others_wait_ns"), *shares)
    most = pl.max_horizontal(OWN_CAUSES)
    own = pl.coalesce(pl.when(pl.col(name) == most).then(pl.lit(name)) for name in OWN_CAUSES)
    linked = pl.when(pl.col("other_comms") >= _CLEAR).then(pl.lit("other_comms"))
    cause = pl.when(most >= _CLEAR).then(own).otherwise(linked.otherwise(pl.lit("earlier")))
    return found.select(
        "root", "made_others_wait_ns", cause.alias("cause"), pl.struct(CAUSES).alias("causes")
    )


def delays(waits: pl.DataFrame) -> pl.DataFrame:
    """By rank and step: how long the others wait for it, counted once."""
    return _by_step(_counted(waits)).rename({"root": "rank"})


def _by_step(counted: pl.DataFrame) -> pl.DataFrame:
    """By root and step: its delays in the group where they are longest."""
    by_group = counted.group_by("root", "step", "group").agg(pl.col("delays_ns").sum())
    return by_group.group_by("root", "step").agg(pl.col("delays_ns").max())


def _once(counted: pl.DataFrame) -> pl.DataFrame:
    return _by_step(counted).group_by("root").agg(pl.col("delays_ns").sum())


def _equals(waits: pl.DataFrame, counted: pl.DataFrame) -> pl.DataFrame:
    """For each rank that compute delays, the ranks of the group in which it caused most waits; of
    one that others were late for, and that came last nowhere, those of its largest group.
    """
    members = waits.select("group", pl.col("rank").alias("equal")).unique()
    sizes = members.join(members.group_by("group").len("caused_ns"), on="group")
    delayed = counted.filter(root_cause="compute")
    late = delayed.filter(pl.col("root") == pl.col("rank")).group_by("rank", "group")
    others = sizes.rename({"equal": "rank"}).filter(
        pl.col("rank").is_in(delayed["root"].unique().implode())
    )
    ranked = [
        each.sort("caused_ns", "rank", "group", descending=(True, False, False)).select(
            "rank", "group"
        )
        for each in (late.agg(pl.col("caused_ns").sum()), others)
    ]
    worst = pl.concat(ranked).unique("rank", keep="first", maintain_order=True)
    pairs = worst.join(members, on="group")
    return pairs.filter(pl.col("equal") != pl.col("rank")).select("rank", "equal")


def exposed_delays(
    waited: pl.DataFrame, times: pl.DataFrame, homes: Mapping[int, int] | None = None
) -> dict[int, int]:
    """The part of `delays_ns` of each rank that can lengthen a step.

    A wait under compute delays the collectives after it, and those may be exposed. So a step grows
    at most by the exposed communication of its usual rank. `homes` joins ranks: those of a host
    under its lowest.
    """
    root = pl.col("root") if homes is None else pl.col("root").replace(homes)
    exposed = times.group_by("step").agg(pl.col("exposed_ns").quantile(0.5, "higher"))
    felt = pl.min_horizontal("delays_ns", pl.col("exposed_ns").cast(pl.Int64))
    by_step = delays(waited.with_columns(root)).join(exposed, on="step", how="left")
    total = by_step.group_by("rank").agg(felt.sum())
    return dict(total.select("rank", "delays_ns").iter_rows())
