"""Wait and transfer of every collective, rank by rank, and why the late ranks were late.

`docs/jobs.md` ("Who is slow") says what waits and causes are. A rank is late if it arrives after
the median by more than the clocks' error. `earlier` means that less than half of the delay is new:
if collectives run under compute, early ranks go on, and a late rank stays behind until the step
ends. If no rank is late, the last one has the cause `none` (all arrived within the error) or
`clock` (some arrived earlier, but the error does not say which rank was last).

A rank that other collectives made late may have waited there for other ranks. The longest of these
waits leads to the rank that arrived last there, and so on to the `root`. If all of them are less
than half of the delay, the transfers took longer, and no rank is late by its own fault. A delay
that is `earlier` has the root that it had in the group's previous collective.

The two ranks of a send have different work, and wait for each other because a pipeline takes turns.
Each compares with the same side of the same transfer in the other pipelines: the same number in the
step, between the same stages. If it is not late there, the cause is `pipeline` and no rank is the
root of that wait. Its delay counts in the collectives that join the pipelines.

When it is wrong: ranks whose files are missing may have arrived last. The first collective of a
group has no previous one: what delayed a rank before its step began is not in the trace.

Roots and causes say which ranks and hosts make the others wait, and what is slow there.
`made_others_wait_ns` is the sum over the job of what all other ranks waited for a rank.
`delays_ns` counts a delay once: from the median arrival on, and in the group where it was longest,
since a rank that is late in its tensor-parallel group makes that whole group late elsewhere.

A rank that delays the job by at least 1% has a slow part: `gpu`, `code` or `host`. If compute
delays it, its kernels are compared with those of the group in which it caused most waits. Kernels
are equal if name and shapes are; collectives do not count. `gpu_factor` is the time of the rank's
kernels over the median time of the same kernels on its equals, and `slower` the part of that time
in kernels that take at least half of the excess. `code_ns` is what more or other kernels add to a
step.

A kernel whose time depends on the data, as with experts of unequal load, is the
same kernel with another time. If few kernels are affected, `slow` stays empty. If one part of a
delay shows in one group and the rest in another, as in pipelines of sharded stages, only the longer
part counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import polars as pl

from foretrace.jobs.clocks import aligned, fit
from foretrace.jobs.matched_collectives import MatchedCollectives, match
from foretrace.jobs.whole_job import WITHOUT_STEPS, Job, columns, covered
from foretrace.trace.intervals import Ints

OWN_CAUSES = ("compute", "host", "data", "copies")
CAUSES = (*OWN_CAUSES, "other_comms")


def with_beside(found: pl.DataFrame, matched: MatchedCollectives) -> pl.DataFrame:
    """Arrivals with `beside`, which those share that compare with each other, and `behind_ns`: how
    much later a rank came than the median of them. Both are null where nothing compares.
    """
    both = matched.collectives.filter(pl.col("collective") == "send", pl.col("present") == 2)
    stages = matched.members.with_columns(
        pl.int_range(pl.len()).over("group").alias("stage"), pl.len().over("group").alias("stages")
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
        known.select(
            "collective_id", pl.col(side).alias("rank"), (pl.col("set") + n).cast(pl.UInt32)
        )
        for n, side in enumerate(("sender", "receiver"))
    ]
    pairs = pl.concat(sides)
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


def causes(job: Job, found: pl.DataFrame) -> pl.DataFrame:
    """What each late arrival spent more time on than the median of those beside it: collective_id,
    rank, since_ns, found_cause, and `new`: the part of the delay that is not `earlier`.
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
    # `carried_ns`: how far the others are ahead, because they computed under earlier collectives
    # of the step while they waited for this rank. So much of its delay has no new cause.
    lead = pl.min_horizontal("behind_ns", pl.col("usual_under") - pl.col("under")).clip(0)
    within = ("rank", "group", "step")
    before = lead.cum_max().shift(1).over(within, order_by="since_ns").fill_null(0)
    last = lead.shift(1).over(within, order_by="since_ns").fill_null(0)
    steps = pl.col("step").fill_null(WITHOUT_STEPS) != WITHOUT_STEPS
    return (
        excess.with_columns(pl.when(steps).then(before).otherwise(last).alias("carried_ns"))
        .with_columns(new.clip(0, 1).alias("new"))
        .select("collective_id", "rank", "since_ns", "new", cause.alias("found_cause"))
    )


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


_NONE = -1


def with_roots(found: pl.DataFrame) -> pl.DataFrame:
    """Arrivals with `root` and `root_cause`; both null for arrivals that are not late.

    An arrival that other collectives delayed leads to the rank that arrived last in the one
    of them where it waited longest for a late rank. One that was delayed earlier has the root of
    its arrival at the group's previous collective, if it was late there.
    """
    rows = np.arange(len(found))
    next_row = _next(found)
    root = np.where(next_row == _NONE, rows, next_row)
    while not (root[root] == root).all():
        root = root[root]
    late = pl.col("late")
    return found.with_columns(
        pl.when(late).then(found["rank"].gather(root)).alias("root"),
        pl.when(late).then(found["cause"].gather(root)).alias("root_cause"),
        *(pl.when(late & ~pl.col("pair")).then(name) for name in ("caused_ns", "delays_ns")),
    )


def _next(found: pl.DataFrame) -> Ints:
    """The row that made each row late, or -1."""
    late, collective = found["late"].to_numpy(), found["collective_id"].to_numpy()
    unknown = found["behind_ns"].is_null().to_numpy()  # a pipeline that compares with no other
    lasts = np.flatnonzero((late | unknown) & found["last"].to_numpy())
    last_of = np.full(int(collective.max()) + 1, _NONE)
    last_of[collective[lasts]] = lasts
    last = last_of[collective]
    # a rank of a pipeline also waits for its turn: only what a late rank caused counts
    behind = found["behind_ns"].fill_null(np.iinfo(np.int64).max).to_numpy()
    caused = np.where(last == _NONE, 0, np.minimum(found["wait_ns"].to_numpy(), behind[last]))
    caused = np.where(caused > found["error_ns"].to_numpy(), caused, 0)
    ends, to = _Ends(found, caused), np.full(len(found), _NONE)
    cause, pair = found["cause"], found["pair"].to_numpy()
    begun = found.select(pl.col("start_ns").min().over("rank", "step")).to_series()
    earlier, others = (
        late & (cause == each).fill_null(False).to_numpy() for each in ("earlier", "other_comms")
    )
    for rows, since in (
        (np.flatnonzero(others), found["since_ns"]),
        # pipelines are not released together: any wait of the step may have made this rank late
        (np.flatnonzero(earlier & pair), begun),
    ):
        held, total = ends.longest_wait(rows, since.fill_null(0).to_numpy())
        enough = 2 * total >= behind[rows]
        to[rows] = np.where((held != _NONE) & (caused[held] > 0) & enough, last[held], _NONE)
    rows = np.flatnonzero(earlier & ~pair)
    held = ends.before(rows)
    to[rows] = np.where((held != _NONE) & late[held], held, _NONE)
    return to


class _Ends:
    """The arrivals of each rank in order of their ends."""

    def __init__(self, found: pl.DataFrame, waited: Ints) -> None:
        self.lane = found["rank"].rank("dense").to_numpy().astype(np.int64) - 1
        self.end, self.wait = found["end_ns"].to_numpy(), waited
        self.since = found["since_ns"].fill_null(0).to_numpy()
        self.group = found["group"].to_physical().to_numpy()
        self.start = found["start_ns"].to_numpy()
        self.base = np.full(int(self.lane.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(self.base, self.lane, self.end)  # each rank may have an epoch of its own
        self.length = int((self.end - self.base[self.lane]).max()) + 2
        key = self._key(self.end, np.arange(len(found)))
        self.order = np.argsort(key, kind="stable")
        self.key = key[self.order]

    def _key(self, moments: Ints, rows: Ints) -> Ints:
        lane = self.lane[rows]
        key: Ints = (moments - self.base[lane]).clip(-1, self.length - 2) + lane * self.length
        return key

    def _until(self, moments: Ints, rows: Ints) -> Ints:
        """How many ends, in order, lie at or before a moment of the row's rank."""
        return np.searchsorted(self.key, self._key(moments[rows], rows), "right")

    def longest_wait(self, rows: Ints, since: Ints) -> tuple[Ints, Ints]:
        """The arrival of the same rank that waited longest of those that ended after `since` and
        until this one starts, or -1; and how long all of them waited.
        """
        if not len(rows):
            return rows, rows
        low, high = self._until(since, rows), self._until(self.start, rows)
        bits = len(self.end).bit_length()
        packed = (self.wait[self.order].clip(0, (1 << (62 - bits)) - 1) << bits) + self.order
        packed = np.append(packed, 0)  # a range may end behind the last
        most = np.maximum.reduceat(packed, np.stack([low, high], 1).reshape(-1))[::2]
        longest: Ints = np.where(low < high, most & ((1 << bits) - 1), _NONE)
        so_far = np.append(0, np.cumsum(self.wait[self.order]))
        return longest, so_far[np.maximum(low, high)] - so_far[low]

    def before(self, rows: Ints) -> Ints:
        """The arrival of the same rank and group that ended at `since_ns`, or -1."""
        at = self.order[np.maximum(self._until(self.since, rows) - 1, 0)]
        same = (self.end[at] == self.since[rows]) & (self.lane[at] == self.lane[rows])
        return np.where(same & (self.group[at] == self.group[rows]), at, _NONE)


WAITS = columns(
    "collective_id:u group:c rank id step wait_ns transfer_ns late_ns last:b cause:s error_ns "
    "caused_ns delays_ns root root_cause:s"
)


def waits(job: Job, matched: MatchedCollectives, clocks: pl.DataFrame) -> pl.DataFrame:
    """One row per arrival at a collective that several ranks recorded, by collective and rank, with
    the columns of `WAITS`. Late ranks have a cause, and so has the last one.

    Wait and transfer are null where the error is longer than the collective took.
    `caused_ns` is what the other ranks waited for this one, shared by all that are still missing.
    `delays_ns` counts the same once, from the median arrival on, without what was already late at
    the previous collective. `root` is the rank that is the first cause, with its `root_cause`.
    These four are null for ranks in time, the first two also for a send and its receive.
    """
    pair = (pl.col("collective") == "send").alias("pair")
    shared = matched.shared.select("collective_id", pl.col("group").cast(pl.Categorical), pair)
    found = aligned(matched.arrivals.join(shared, on="collective_id"), clocks, "start_ns", "end_ns")
    if found.is_empty():
        return pl.DataFrame(schema=WAITS)
    errors = clocks.select("rank", pl.col("error_ns").fill_null(0).alias("own_ns"))
    found = _timed(found.join(errors, on="rank", how="left"))
    late = (pl.col("behind_ns") > pl.col("error_ns")).fill_null(False)
    found = with_beside(found, matched).with_columns(late.alias("late"))
    why = aligned(causes(job, found), clocks, "since_ns")
    apart = pl.when("pair").then(pl.lit("pipeline")).otherwise(pl.lit("clock"))
    found = found.join(why, on=("collective_id", "rank"), how="left").with_columns(
        pl.when("late")
        .then("found_cause")
        .when(pl.col("last") & (pl.col("spread_ns") <= pl.col("error_ns")))
        .then(pl.lit("none"))
        .when("last")
        .then(apart)
        .alias("cause"),
        (pl.col("delays_ns") * pl.col("new")).round(),
    )
    known = pl.col("error_ns") <= pl.col("end_ns") - pl.col("start_ns")
    times = (pl.when(known).then(name) for name in ("wait_ns", "transfer_ns"))
    return (
        with_roots(found.sort("collective_id", "rank"))
        .with_columns(times)
        .select(pl.col(name).cast(kind) for name, kind in WAITS.items())
    )


def _timed(found: pl.DataFrame) -> pl.DataFrame:
    """Wait, transfer, lateness and what each rank caused, in order of collective and arrival.

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
    moved = np.clip(start[last], start, np.maximum(start, end))  # no rank waits after its own end
    sums = [np.cumsum(part) for part in parts]  # the first of each collective adds nothing
    caused, delays = (np.rint(each - each[at]).astype(np.int64) for each in sums)
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


def with_exposed(job: Job, waited: pl.DataFrame) -> pl.DataFrame:
    """The waits with a column `exposed_wait_ns`, null where the wait is not known."""
    where = ("rank", "start_ns", "end_ns")
    begun = job.table("collectives").select("rank", "id", "start_ns").collect(engine="streaming")
    end = pl.col("start_ns") + pl.col("wait_ns").fill_null(0)
    rows = waited.join(begun, on=("rank", "id"), how="left", maintain_order="left")
    compute = job.table("spans").filter(pl.col("kind") == "compute").select(where)
    under = covered(
        compute.collect(engine="streaming"), rows.with_columns(end.alias("end_ns")).select(where)
    )
    exposed = (pl.col("wait_ns") - pl.Series(under)).clip(0)
    return waited.with_columns(exposed.alias("exposed_wait_ns"))


@lru_cache(maxsize=1)  # summary and page need it; for a thousand ranks it takes a minute
def timed_collectives(job: Job) -> tuple[MatchedCollectives, pl.DataFrame, pl.DataFrame]:
    """The collectives that ranks share, the clock of each rank, and who waited for whom."""
    met = match(job)
    clocks = fit(job, met)
    return met, clocks, with_exposed(job, waits(job, met, clocks))


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
        .agg(pl.col("each_ns").median().alias("usual_ns"), pl.col("per_step").alias("counts"))
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


DELAY_CAUSES = (*CAUSES, "earlier")
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
    compute, extra, more = pl.col("cause") == "compute", pl.col("code_ns"), pl.col("gpu_ns")
    enough = pl.col("delays_ns") / max(waits["step"].n_unique(), 1) / 4
    broad = (pl.col("gpu_factor") >= _SLOWER) & (pl.col("slower") >= _BROAD)
    told = (
        pl.when(compute & broad & (more >= extra) & (more >= enough)).then(pl.lit("gpu"))
        .when(compute & (extra > more) & (extra >= enough)).then(pl.lit("code"))
        .when(pl.col("cause") == "host").then(pl.lit("host"))
        .otherwise(pl.lit(""))
    )  # fmt: skip
    slow = pl.when(pl.col("delays_ns") >= NOTABLE * _length(job)).then(told).otherwise(pl.lit(""))
    return found.with_columns(slow.alias("slow")).sort(
        "made_others_wait_ns", "rank", descending=(True, False)
    )


def _length(job: Job) -> float:
    """How long the usual rank was recorded, in the chosen steps."""
    span = pl.col("window_end_ns") - pl.col("window_start_ns")
    by_rank = job.table("steps").group_by("rank").agg(span.sum().alias("length"))
    return float(by_rank.select(pl.col("length").median()).collect().item() or 0)


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
        for cause in DELAY_CAUSES
    ]
    found = counted.group_by("root").agg(total.alias("made_others_wait_ns"), *shares)
    most = pl.max_horizontal(OWN_CAUSES)
    own = pl.coalesce(pl.when(pl.col(name) == most).then(pl.lit(name)) for name in OWN_CAUSES)
    linked = pl.when(pl.col("other_comms") >= _CLEAR).then(pl.lit("other_comms"))
    cause = pl.when(most >= _CLEAR).then(own).otherwise(linked.otherwise(pl.lit("earlier")))
    return found.select(
        "root", "made_others_wait_ns", cause.alias("cause"), pl.struct(DELAY_CAUSES).alias("causes")
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
