"""Which ranks and hosts make the others wait, and what is slow there: the GPU, the code, the host.

How it is computed: `waits.py` says for every late arrival which rank is the root of the delay, and
why. Summed over the job, `made_others_wait_ns` is what all other ranks waited for a rank.
`delays_ns` counts a delay once: from the median arrival on, and in the group where it was longest,
since a rank that is late in its tensor-parallel group makes that whole group late elsewhere.

A rank that delays the job by at least 1% has a slow part (`slow`). If compute delays it, it is
compared with the members of the group in which it caused most waits (`slowness.py`). The `gpu` is
slow if the same kernels take longer there, most of them by about as much. The `code` is slow if it
runs more kernels, or others. A rank that is late while its GPU is idle has a slow `host`.

When it is wrong: a kernel whose time depends on the data, as with experts of unequal load, is the
same kernel with another time. If few kernels are affected, `slow` stays empty. A delay of which one
part shows in one group and the rest in another, as in pipelines of sharded stages, counts with the
longer part alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foretrace.analyze.jobs.slowness import slowness

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

CAUSES = ("compute", "host", "data", "copies", "other_comms", "earlier")
NOTABLE = 0.01  # of the time: the steps of a recorded training run on one H200 differ by 0.3%
_MOST_OF_HOST = 0.75
_SLOWER = 1.02  # kernel times of recorded models on one H200 differ by up to 0.7% between steps
_BROAD = 0.6  # of the kernel time: a GPU with a low clock slows all but what waits for memory


def stragglers(waits: pl.DataFrame, job: Job) -> pl.DataFrame:
    """One row per rank, those that made the others wait most first: rank, host, collectives, wait_ns,
    transfer_ns, times_last, made_others_wait_ns, delays_ns, cause, causes (shares), slow, and the
    evidence for it: gpu_factor, slower, gpu_ns, code_ns.

    `times_last` counts the collectives in which nobody came later, within the clocks' error, and
    the rank itself is the root.
    """
    homes = [(each.rank, each.host) for each in job.members]
    ranks = pl.DataFrame(homes, {"rank": pl.Int64, "host": pl.String}, orient="row")
    own = waits.group_by("rank").agg(
        pl.len().alias("collectives"), pl.col("wait_ns", "transfer_ns").sum()
    )
    blamed = _blamed(waits)
    # the wait of the last rank is not known where its stay is within the clocks' error
    no_later = pl.col("last") | (pl.col("wait_ns") <= pl.col("error_ns")).fill_null(False)
    last = blamed.filter(no_later, pl.col("root") == pl.col("rank"))
    counts = ("collectives", "times_last", "made_others_wait_ns", "delays_ns")
    found = (
        ranks.join(own, on="rank", how="left")
        .join(last.group_by("rank").len("times_last"), on="rank", how="left")
        .join(_caused(blamed), left_on="rank", right_on="root", how="left")
        .join(_once(blamed), left_on="rank", right_on="root", how="left")
        .join(slowness(job, _equals(waits, blamed)), on="rank", how="left")
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
    blamed = _blamed(waits).join(homes, on="root").drop("root").rename({"host": "root"})
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
        .join(_once(blamed), left_on="host", right_on="root", how="left")
        .with_columns(pl.col("delays_ns").fill_null(0))
        .with_columns(pl.col("slow") & enough)
        .sort("made_others_wait_ns", "host", descending=(True, False))
    )


def _blamed(waits: pl.DataFrame) -> pl.DataFrame:
    """The arrivals that are late through a rank's fault; the turns of a pipeline are nobody's."""
    return waits.filter(pl.col("caused_ns").is_not_null(), pl.col("root_cause") != "pipeline")


def _caused(blamed: pl.DataFrame) -> pl.DataFrame:
    """By root: the waits of others, and the share of each cause."""
    total = pl.col("caused_ns").sum()
    shares = [
        (pl.col("caused_ns").filter(pl.col("root_cause") == cause).sum() / total).alias(cause)
        for cause in CAUSES
    ]
    found = blamed.group_by("root").agg(total.alias("made_others_wait_ns"), *shares)
    most = pl.max_horizontal(CAUSES)
    first = pl.coalesce(pl.when(pl.col(name) == most).then(pl.lit(name)) for name in CAUSES)
    return found.select(
        "root", "made_others_wait_ns", first.alias("cause"), pl.struct(CAUSES).alias("causes")
    )


def delays(waits: pl.DataFrame) -> pl.DataFrame:
    """By rank and step: how long the others wait for it, counted once."""
    return _by_step(_blamed(waits)).rename({"root": "rank"})


def _by_step(blamed: pl.DataFrame) -> pl.DataFrame:
    """By root and step: its delays in the group where they are longest."""
    by_group = blamed.group_by("root", "step", "group").agg(pl.col("delays_ns").sum())
    return by_group.group_by("root", "step").agg(pl.col("delays_ns").max())


def _once(blamed: pl.DataFrame) -> pl.DataFrame:
    return _by_step(blamed).group_by("root").agg(pl.col("delays_ns").sum())


def _equals(waits: pl.DataFrame, blamed: pl.DataFrame) -> pl.DataFrame:
    """For each rank that compute delays, the ranks of the group in which it caused most waits."""
    worst = (
        blamed.filter(pl.col("root") == pl.col("rank"), root_cause="compute")
        .group_by("rank", "group")
        .agg(pl.col("caused_ns").sum())
        .sort("caused_ns", "rank", "group", descending=(True, False, False))
        .unique("rank", keep="first", maintain_order=True)
    )
    members = waits.select("group", pl.col("rank").alias("equal")).unique()
    pairs = worst.select("rank", "group").join(members, on="group")
    return pairs.filter(pl.col("equal") != pl.col("rank")).select("rank", "equal")
