"""How the clocks of a job's ranks differ, fitted from the collectives that they share.

An all-reduce, all-gather, reduce-scatter or all-to-all ends on all its ranks within microseconds,
even if one rank arrived late. So its ends are one moment on several clocks:

    end on a rank = moment of the collective + offset + drift * t + noise

The fit gives an offset and a drift for each rank, also for ranks of one host: each GPU converts its
times by itself. It uses all groups together, so no group has to span the job. The moments are
eliminated, since a collective only says how its ranks differ. What remains is one linear system
with two unknowns for each rank: 33 MB for 1,024 ranks, four times that for twice as many. It is
solved again with lower weights for ends that are far from the fit, and at last with none for
outliers.

`error_ns` is how far the ends of a rank's collectives are from the fit, together with the standard
error of the fit. A rank cannot leave a collective before the last rank has started it. Where the
fitted clocks contradict this, the error is raised until they agree. Two kinds of ranks are not
fitted: those that share no collective with most others, and those whose error is longer than
their collectives usually take, which happens if matching by order joined the wrong collectives.

When it is wrong: a rank that always ends later than the others by the same time looks like a rank
with another clock. No fit sees such a lag, and the error does not contain it. It is not longer than
the shortest collective of that rank.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import coded, distinct
from foretrace.jobs.matched_collectives import MatchedCollectives
from foretrace.jobs.whole_job import Job, columns
from foretrace.trace.collectives import BOTH_SIDES
from foretrace.trace.intervals import Floats, Ints

CLOCKS = columns("rank host:s offset_ns drift_ppm:f error_ns fitted:b collectives reference at_ns")
_MOST_COLLECTIVES = 256  # of a group; noise of 5 us averages to 0.3 us over them
# How far apart the ends of one collective may lie: an assumption that only sets how collectives
# compare with each other, and the least error that is stated. The job's own scatter decides.
_NOISE_NS = 1_000.0
_NOISE_SHARE = 0.01  # of a long transfer: the last chunks of a ring arrive one after the other
_CLEAR_NS = 100_000.0  # an error below this is small beside what makes a rank late
GENTLE_ROUNDS, STRICT_ROUNDS = 4, 4
HUBER, TUKEY = 1.345, 4.685  # 95% as efficient as least squares where the noise is normal
MAD = 1.4826  # from the median distance to the standard deviation, where the noise is normal
_MANY = 30  # with fewer spare arrivals a strict fit would choose those that happen to agree
_MOST_ROUNDS, _CLOSE = 200, 1e-6  # of conjugate gradients; the square of a standard error
_AT_ONCE = 256  # collectives whose ranks are put into one dense table


class Problem(Struct, frozen=True):
    """Ends of collectives, in order of collective. `first` has the first row of each collective.

    `noise_ns` is how far ends of such a collective are apart on equal clocks. `t` is the time of
    the collective in half lengths of the recording, from -1 to 1. `free_ns` is the largest drift
    over half a length that a clock may have.
    """

    collective: Ints
    first: Ints
    rank: Ints
    ranks: int
    time_ns: Floats
    noise_ns: Floats
    t: Floats
    free_ns: float

    @property
    def spread(self) -> Floats:
        """The factor from the distance to the mean, to the distance to the mean of the others."""
        count = np.diff(self.first, append=len(self.rank))
        spread: Floats = np.sqrt(count / np.maximum(count - 1, 1))[self.collective]
        return spread

    def by_rank(self, values: Floats) -> Floats:
        """Sums of values over the ends of each rank."""
        sums: Floats = np.bincount(self.rank, values, self.ranks).astype(np.float64)
        return sums

    def centered(self, weight: Floats, values: Floats) -> Floats:
        """Values less the weighted mean of their collective."""
        total = np.add.reduceat(weight * values, self.first)
        mean = total / np.add.reduceat(weight, self.first)
        centered: Floats = values - mean[self.collective]
        return centered

    def pull(self, weight: Floats, values: Floats) -> Floats:
        """What the ends of each rank pull at its offset, then what they pull at its drift."""
        pull = weight * self.centered(weight, values)
        return np.concatenate([self.by_rank(pull), self.by_rank(pull * self.t)])


class Fitted(Struct, frozen=True):
    """Offset in the middle and drift per half length, by rank, and the distance of each end from
    the fit. `error_ns` is the standard error by rank, at the worse end of the recording.
    """

    offset_ns: Floats
    drift_ns: Floats
    off_ns: Floats
    error_ns: Floats


def solve(problem: Problem, reference: Ints) -> Fitted:
    """The clocks, relative to that of each rank's `reference` rank."""
    unknowns = len(problem.first) + 2 * (problem.ranks - len(distinct(reference)))
    spare = len(problem.rank) - unknowns
    widened = np.sqrt(len(problem.rank) / max(spare, 1))
    weight, unit = problem.noise_ns**-2.0, problem.noise_ns / problem.spread
    clocks, off, scale = np.zeros((2, problem.ranks)), problem.time_ns, 1.0
    for turn in range(GENTLE_ROUNDS + STRICT_ROUNDS * (spare >= _MANY)):
        clocks = _solved(problem, weight / scale**2, reference, clocks.reshape(-1)).reshape(2, -1)
        shown = clocks[0][problem.rank] + clocks[1][problem.rank] * problem.t
        off = problem.centered(weight, problem.time_ns - shown)
        # at least 1: a few collectives may agree by chance
        scale = max(MAD * float(np.median(np.abs(off / unit))) * widened, 1.0)
        weight = _trust(off / unit / scale, turn) * problem.noise_ns**-2.0
    matrix = _matrix(problem, weight / scale**2, reference)
    covariance: Floats = np.linalg.inv(matrix).astype(np.float64)
    error = _error(covariance, reference)
    clocks = clocks - clocks[:, reference]
    return Fitted(clocks[0], clocks[1], off * widened, error)


def _solved(problem: Problem, weight: Floats, reference: Ints, near: Floats) -> Floats:
    """The solution. Of many ranks it is found by conjugate gradients from that of the round before,
    without the matrix: for a thousand ranks that takes a tenth of the time of a direct solution.
    """
    sums, found = problem.pull(weight, problem.time_ns), near
    if len(sums) <= 512:  # two for each rank; a direct solution of fewer takes milliseconds
        return np.linalg.solve(_matrix(problem, weight, reference), sums).astype(np.float64)
    held = _held(problem, weight, reference)
    total = np.add.reduceat(weight, problem.first)[problem.collective]
    alone = weight - weight**2 / total
    weak = np.concatenate([problem.by_rank(alone), problem.by_rank(alone * problem.t**2)])
    weak = 1 / (weak + held)

    def applied(way: Floats) -> Floats:
        offset, drift = way.reshape(2, -1)
        moved: Floats = problem.pull(weight, offset[problem.rank] + drift[problem.rank] * problem.t)
        return moved + held * way

    rest = sums - applied(found)
    way, size = weak * rest, float(rest @ (weak * rest))
    for _ in range(_MOST_ROUNDS):
        if size < _CLOSE:
            return found
        moved = applied(way)
        step = size / float(way @ moved)
        found, rest = found + step * way, rest - step * moved
        size, before = float(rest @ (weak * rest)), size
        way = weak * rest + size / before * way
    return np.linalg.solve(_matrix(problem, weight, reference), sums).astype(np.float64)


def _held(problem: Problem, weight: Floats, reference: Ints) -> Floats:
    """What holds the offsets and drifts beside the collectives: no clock drifts far, and only
    differences of offsets are determined.
    """
    held, pinned = np.zeros(2 * problem.ranks), distinct(reference)
    held[problem.ranks :] = problem.free_ns**-2.0
    held[pinned] = problem.by_rank(weight)[pinned]
    return held


def _trust(off: Floats, turn: int) -> Floats:
    """The weight of an end: 1 on the fit, less with the distance from it."""
    far = np.abs(off)
    if turn < GENTLE_ROUNDS:
        return HUBER / np.maximum(far, HUBER)
    trust: Floats = np.maximum(1 - (far / TUKEY) ** 2, 0) ** 2
    return np.maximum(trust, 1e-12)  # above 0: each collective needs a weighted mean


def _matrix(problem: Problem, weight: Floats, reference: Ints) -> Floats:
    """The normal equations: rows and columns are the offsets of all ranks, then their drifts."""
    root = weight / np.sqrt(np.add.reduceat(weight, problem.first))[problem.collective]
    edges, moments = np.append(problem.first, len(weight)), problem.t[problem.first]
    own = [problem.by_rank(weight * problem.t**power) for power in range(3)]
    blocks = [np.diag(each) for each in own]
    for low in range(0, len(moments), _AT_ONCE):
        t = moments[low : low + _AT_ONCE, None]
        rows = slice(edges[low], edges[low + len(t)])
        here, column = coded(problem.rank[rows])
        shares = np.zeros((len(t), len(here)))
        np.add.at(shares, (problem.collective[rows] - low, column), root[rows])
        for power, block in enumerate(blocks):
            block[np.ix_(here, here)] -= shares.T @ (shares * t**power)
    matrix = np.block([[blocks[0], blocks[1]], [blocks[1], blocks[2]]])
    matrix[np.diag_indices_from(matrix)] += _held(problem, weight, reference)
    return matrix


def _error(covariance: Floats, reference: Ints) -> Floats:
    """The standard error of each clock against its reference, at the worse end of the recording."""
    own, count = np.arange(len(reference)), len(reference)

    def apart(block: Floats) -> Floats:
        both = block[own, reference] + block[reference, own]
        found: Floats = block[own, own] + block[reference, reference] - both
        return found

    offset, drift = covariance[:count, :count], covariance[count:, count:]
    mixed = np.abs(apart(covariance[:count, count:]))
    error: Floats = np.sqrt(np.maximum(apart(offset) + apart(drift) + 2 * mixed, 0))
    return error


def fit(job: Job, matched: MatchedCollectives) -> pl.DataFrame:
    """The clock of each rank relative to the lowest: rank, host, offset_ns, drift_ppm, error_ns,
    fitted, collectives, and columns that say what these mean.

    `offset_ns` holds at `at_ns`, and `drift_ppm` adds to it from there on. `reference` is the rank
    whose clock is the measure: the lowest of those that are connected. The clock of a rank whose
    `reference` is not that of most ranks compares with that one alone.
    """
    hosts = sorted((each.rank, each.host) for each in job.members if each.rank is not None)
    ranks = pl.DataFrame(hosts, ("rank", "host"), orient="row").unique("rank", keep="first")
    channel = ("group", "collective", "sender", "receiver")
    place, count = pl.int_range(pl.len()).over(channel), pl.len().over(channel)
    taken = place * _MOST_COLLECTIVES // count
    enough = count <= _MOST_COLLECTIVES
    some = matched.shared.filter(
        enough | (taken != (place - 1) * _MOST_COLLECTIVES // count)
    ).select("collective_id", pl.col("collective").is_in(BOTH_SIDES).alias("both_sides"))
    shortest = (pl.col("end_ns") - pl.col("start_ns")).min().over("collective_id")
    usual = (_NOISE_NS**2 + (_NOISE_SHARE * shortest) ** 2).sqrt()
    one_sided = pl.max_horizontal(usual, pl.lit(5_000.0))  # a sender is done before its receiver
    noise = pl.when("both_sides").then(usual).otherwise(one_sided).alias("noise_ns")
    ends = (
        matched.arrivals.join(some, on="collective_id")
        .sort("collective_id", "rank")
        .with_columns(noise)
    )
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


def _fitted(ends: pl.DataFrame) -> pl.DataFrame:
    met = distinct(ends["rank"].to_numpy())
    rank = np.searchsorted(met, ends["rank"].to_numpy())
    collective = ends["collective_id"].rle_id().to_numpy().astype(np.int64)
    first = np.flatnonzero(np.diff(collective, prepend=-1))
    end = ends["end_ns"].to_numpy()
    island = _islands(rank, collective, first, len(met))
    never = np.iinfo(np.int64).max
    coarse, known = np.zeros(len(island), np.int64), island == np.arange(len(island))
    while not known.all():
        held = known[rank]
        moment = np.where(held, end - coarse[rank], never)
        moment = np.minimum.reduceat(moment, first)[collective]
        fresh = ~held & (moment != never)
        seen = pl.DataFrame({"rank": rank[fresh], "off": (end - moment)[fresh]})
        middle = seen.group_by("rank").agg(pl.col("off").median().cast(pl.Int64))
        coarse[middle["rank"].to_numpy()] = middle["off"].to_numpy()
        known[middle["rank"].to_numpy()] = True
    since = end - coarse[rank]
    low = np.full(len(met), np.iinfo(np.int64).max)
    np.minimum.at(low, island[rank], since)
    at = low[island]
    time = (since - at[rank]).astype(np.float64)
    half = max(float(time.max()) / 2, 1.0)
    t = (np.add.reduceat(time, first) / np.diff(first, append=len(time)))[collective] / half - 1
    free = 100.0 * 1e-6 * half  # crystal oscillators are specified to this or better
    problem = Problem(collective, first, rank, len(met), time, ends["noise_ns"].to_numpy(), t, free)
    fitted = solve(problem, island)
    came = ends["start_ns"].to_numpy()
    start = time - (end - came)
    sides = ends["both_sides"].to_numpy()
    shown = fitted.offset_ns[problem.rank] + fitted.drift_ns[problem.rank] * problem.t
    last = np.maximum.reduceat(start - shown, problem.first)[problem.collective]
    early: Floats = np.maximum(last - (problem.time_ns - shown), 0)
    wrong = early * sides
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


def _typical(values: Floats, rank: Ints, share: float) -> Floats:
    """A quantile of the absolute values of each rank."""
    seen = pl.DataFrame({"rank": rank, "value": np.abs(values)})
    return (
        seen.group_by("rank").agg(pl.col("value").quantile(share)).sort("rank")["value"].to_numpy()
    )
