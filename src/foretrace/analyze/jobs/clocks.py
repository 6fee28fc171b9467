"""How the clocks of a job's ranks differ, fitted from the collectives that they share.

An all-reduce, all-gather, reduce-scatter or all-to-all ends on all its ranks within microseconds,
whoever came late: its ends are one moment on several clocks. The fit gives an offset and a drift
for each rank (a GPU's times pass through a conversion of their own, so that ranks of one host are
fitted apart), over all groups together: no group needs to span the job.

`error_ns` is how far the ends of a rank's collectives lie from the fit, together with what the
number of collectives and the way through the groups add. Nobody ends before the last has started:
where the fitted clocks contradict this, the error is raised until they do not. Two kinds of ranks
are not fitted: those that share no collective with most others, and those whose error is longer
than their collectives usually take, as when matching by order put together what did not run
together.

When it is wrong: a rank that ends later than the others every time, by as much, looks like a rank
with another clock. No fit sees such a lag, and the error does not contain it. It is not longer than
the shortest collective of that rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from foretrace.analyze.jobs.clock_fit import MAD, Fitted, Problem, solve
from foretrace.model.collectives import BOTH_SIDES
from foretrace.model.intervals import Floats, Ints

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.matching import MatchedCollectives

CLOCKS = {
    "rank": pl.Int64,
    "host": pl.String,
    "offset_ns": pl.Int64,
    "drift_ppm": pl.Float64,
    "error_ns": pl.Int64,
    "fitted": pl.Boolean,
    "collectives": pl.Int64,
    "reference": pl.Int64,
    "at_ns": pl.Int64,
    "drift_error_ppm": pl.Float64,
}
_MOST_COLLECTIVES = 256  # of a group; noise of 5 us averages to 0.3 us over them
# How far apart the ends of one collective may lie: an assumption that only sets how collectives
# compare with each other, and the least error that is stated. The job's own scatter decides.
_NOISE_NS = 1_000.0
_NOISE_SHARE = 0.01  # of a long transfer: the last chunks of a ring arrive one after the other
_ONE_SIDED_NOISE_NS = 5_000.0  # a sender is done before its receiver
_CLEAR_NS = 100_000.0  # an error below this is small beside what makes a rank late
_FREE_PPM = 100.0  # crystal oscillators are specified to this or better


def fit(job: Job, matched: MatchedCollectives) -> pl.DataFrame:
    """The clock of each rank relative to the lowest: rank, host, offset_ns, drift_ppm, error_ns,
    fitted, collectives, and columns that say what these mean.

    `offset_ns` holds at `at_ns`, and `drift_ppm` adds to it from there on. In a short recording the
    drift may be anything within `drift_error_ppm`; no time is off by more than `error_ns` for that.
    `reference` is the rank whose clock is the measure: the lowest of those that are connected. The
    clock of a rank whose `reference` is not that of most ranks compares with that one alone.
    """
    hosts = sorted((each.rank, each.host) for each in job.members if each.rank is not None)
    ranks = pl.DataFrame(hosts, ("rank", "host"), orient="row").unique("rank", keep="first")
    ends = _ends(matched)
    found = _fitted(ends) if ends.height else pl.DataFrame(schema=CLOCKS).drop("host")
    return (
        ranks.join(found, on="rank", how="left")
        .with_columns(
            pl.col("fitted").fill_null(False),
            pl.col("collectives").fill_null(0),
            pl.coalesce("reference", "rank").alias("reference"),
        )
        .select(pl.col(name).cast(kind) for name, kind in CLOCKS.items())
        .sort("rank")
    )


def aligned(frame: pl.DataFrame, clocks: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The frame with these columns on the clock of each rank's reference.

    Times of a rank without a clock stay as they are.
    """
    told = clocks.select("rank", "offset_ns", "at_ns", pl.col("drift_ppm") / 1e6)
    both = frame.join(told, on="rank", how="left", maintain_order="left")
    since = [pl.col(name) - pl.col("offset_ns") - pl.col("at_ns") for name in columns]
    kept = [each - (each * pl.col("drift_ppm")).round().cast(pl.Int64) for each in since]
    return both.with_columns(
        pl.coalesce(each + pl.col("at_ns"), name).alias(name)
        for name, each in zip(columns, kept, strict=True)
    ).select(frame.columns)


def _ends(matched: MatchedCollectives) -> pl.DataFrame:
    """The arrivals that the fit uses, in order of collective, with the noise to expect of each."""
    channel = ("group", "collective", "sender", "receiver")
    place, count = pl.int_range(pl.len()).over(channel), pl.len().over(channel)
    taken = place * _MOST_COLLECTIVES // count
    enough = count <= _MOST_COLLECTIVES
    some = matched.shared.filter(enough | (taken != (place - 1) * _MOST_COLLECTIVES // count)).select(
        "collective_id", pl.col("collective").is_in(BOTH_SIDES).alias("both_sides")
    )
    shortest = (pl.col("end_ns") - pl.col("start_ns")).min().over("collective_id")
    usual = (_NOISE_NS**2 + (_NOISE_SHARE * shortest) ** 2).sqrt()
    one_sided = pl.max_horizontal(usual, pl.lit(_ONE_SIDED_NOISE_NS))
    noise = pl.when("both_sides").then(usual).otherwise(one_sided).alias("noise_ns")
    return matched.arrivals.join(some, on="collective_id").sort("collective_id", "rank").with_columns(noise)


def _fitted(ends: pl.DataFrame) -> pl.DataFrame:
    met = np.unique(ends["rank"].to_numpy())
    rank = np.searchsorted(met, ends["rank"].to_numpy())
    collective = ends["collective_id"].rle_id().to_numpy().astype(np.int64)
    first = np.flatnonzero(np.diff(collective, prepend=-1))
    end = ends["end_ns"].to_numpy()
    island = _islands(rank, collective, first, len(met))
    coarse = _coarse(end, rank, collective, first, island)
    since = end - coarse[rank]
    low = np.full(len(met), np.iinfo(np.int64).max)
    np.minimum.at(low, island[rank], since)
    at = low[island]
    time = (since - at[rank]).astype(np.float64)
    half = max(float(time.max()) / 2, 1.0)
    t = (np.add.reduceat(time, first) / np.diff(first, append=len(time)))[collective] / half - 1
    free = _FREE_PPM * 1e-6 * half
    problem = Problem(collective, first, rank, len(met), time, ends["noise_ns"].to_numpy(), t, free)
    fitted = solve(problem, island)
    came = ends["start_ns"].to_numpy()
    start = time - (end - came)
    sides = ends["both_sides"].to_numpy()
    wrong = _contradictions(problem, fitted, start) * sides
    scatter = MAD * _typical(fitted.off_ns * problem.spread, rank, 0.5)
    error = np.hypot(np.maximum(scatter, _NOISE_NS), 2 * fitted.error_ns)
    error = np.maximum(error, _typical(wrong, rank, 0.9))
    main = np.bincount(island).argmax()
    return pl.DataFrame(
        {
            "rank": met,
            "offset_ns": coarse + np.rint(fitted.offset_ns - fitted.drift_ns).astype(np.int64),
            "drift_ppm": fitted.drift_ns / half * 1e6,
            "error_ns": np.ceil(error).astype(np.int64),
            "fitted": (island == main)
            & (error <= np.maximum(_typical(end - came, rank, 0.5), _CLEAR_NS)),
            "collectives": np.bincount(rank),
            "reference": met[island],
            "at_ns": at,
            "drift_error_ppm": 2 * fitted.drift_error_ns / half * 1e6,
        }
    )


def _islands(rank: Ints, collective: Ints, first: Ints, ranks: int) -> Ints:
    """For each rank the lowest that collectives connect it with."""
    island = np.arange(ranks)
    while True:
        lower = island.copy()
        np.minimum.at(lower, rank, np.minimum.reduceat(island[rank], first)[collective])
        if (lower == island).all():
            return island
        island = lower[lower]


def _coarse(end: Ints, rank: Ints, collective: Ints, first: Ints, island: Ints) -> Ints:
    """Offsets to within the drift, in whole nanoseconds: files without a time base are decades off.

    They spread from the lowest rank of each island to those that met it, and on from there.
    """
    never = np.iinfo(np.int64).max
    offset, known = np.zeros(len(island), np.int64), island == np.arange(len(island))
    while not known.all():
        held = known[rank]
        moment = np.where(held, end - offset[rank], never)
        moment = np.minimum.reduceat(moment, first)[collective]
        fresh = ~held & (moment != never)
        seen = pl.DataFrame({"rank": rank[fresh], "off": (end - moment)[fresh]})
        middle = seen.group_by("rank").agg(pl.col("off").median().cast(pl.Int64))
        offset[middle["rank"].to_numpy()] = middle["off"].to_numpy()
        known[middle["rank"].to_numpy()] = True
    return offset


def _contradictions(problem: Problem, fitted: Fitted, start: Floats) -> Floats:
    """How long before the last start of its collective an arrival ends."""
    shown = fitted.offset_ns[problem.rank] + fitted.drift_ns[problem.rank] * problem.t
    last = np.maximum.reduceat(start - shown, problem.first)[problem.collective]
    early: Floats = np.maximum(last - (problem.time_ns - shown), 0)
    return early


def _typical(values: Floats, rank: Ints, share: float) -> Floats:
    """A quantile of the absolute values of each rank."""
    seen = pl.DataFrame({"rank": rank, "value": np.abs(values)})
    return (
        seen.group_by("rank").agg(pl.col("value").quantile(share)).sort("rank")["value"].to_numpy()
    )
