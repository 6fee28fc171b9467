"""What each span and collective of one step waited for, and the critical path through the step.

A trace does not record which work waits for which, so order decides. Work follows

1. what ended last before it, if that is on its own stream and within `QUEUED_NS`: a stream is a
   queue. Compute follows what ended within `QUEUED_NS` on any stream: it waited for an event;
2. else the span under which it starts, if that has several kernels: one of them has just ended;
3. else what ended last before it, or the start of the step.

The time in between is idle: the host was late. The path goes back through these links from the end
of the step on the rank that ends last, as `docs/jobs.md` tells. A wait is never on it: it leads to
the rank that was waited for. The segments tile the step.

When it is wrong: work that ends by chance just before other work starts looks like its cause. A
pause of a few microseconds counts for the host, though the GPU needs some of it to start queued
work. Times of different hosts compare within the error of their clocks; ranks whose clocks do not
compare with those of most ranks are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.analyze.jobs.clocks import aligned
from foretrace.analyze.jobs.matched_collectives import MatchedCollectives, roles
from foretrace.analyze.jobs.whole_job import Job, columns
from foretrace.base.arrays import coded, filled
from foretrace.model.intervals import Bools, IntervalUnion, Ints, innermost

# On recorded traces (A100, H200) a queued kernel starts 1.2 us after the end of the one before it,
# 99 of 100 within 2.7 us. Work that waits for another stream needs a little longer.
QUEUED_NS = 10_000
COMPUTE, COPIES, TRANSFER, FINISH = "compute", "copies", "transfer", "finish"
_KIND = pl.Enum([COMPUTE, COPIES, TRANSFER, FINISH])
_KINDS = {"compute": COMPUTE, "copy": COPIES, "comms": TRANSFER}
_OF_COLLECTIVES = ("collective_id", "complete", "launch_ns", "ready_ns")
_COLUMNS = {
    **columns("rank kind:s name:c stream count collective_id complete:b launch_ns ready_ns"),
    **columns("start_ns end_ns"),
    "kind": _KIND,
}
_NO_STREAM = -1 << 40


class StepGraph(Struct, frozen=True):
    """The work of one step in order of rank and start; all times are on the lowest rank's clock.

    `work` has rank, kind and name of each row; of a collective also its `collective_id`, its
    launch, and whether all its ranks recorded it (`complete`). `before` is the row that a row
    waited for, or -1; `inside` says that it started under that row instead of after it. `on_stream`
    is the row before it on its stream. `last` is, for a collective, the row of the rank that
    arrived last. The last row of each rank is the end of its step. `begin` is the start of each
    row's window.
    """

    step: int
    start_ns: int
    end_ns: int
    work: pl.DataFrame
    rank: Ints
    start: Ints
    end: Ints
    begin: Ints
    collective: Ints
    before: Ints
    inside: Bools
    on_stream: Ints
    last: Ints
    ready: Ints  # of a collective: the row under which its input is complete, or -1
    ready_ns: Ints
    loading: IntervalUnion  # the data loaders of all ranks, each on its lane
    lane: Ints  # what to add to a time of each row

    @property
    def finishes(self) -> Ints:
        """The rows where the steps of the ranks end."""
        return np.flatnonzero(np.append(self.rank[1:] != self.rank[:-1], True))


def graph(
    job: Job, matched: MatchedCollectives, clocks: pl.DataFrame, step: int
) -> StepGraph | None:
    """The graph of a step; None where no rank has it."""
    windows = _windows(job, clocks, step)
    if windows.is_empty():
        return None
    work = _work(job, matched, clocks, windows)
    rank, start, end, begin = (
        work[name].to_numpy() for name in ("rank", "start_ns", "end_ns", "window_start_ns")
    )
    ranks, number = coded(rank)  # each rank has a place of its own on one axis
    room = int(end.max()) - int(min(start.min(), begin.min())) + 1
    lane = number * room
    before, inside = _before(work, start + lane, end + lane)
    collective = filled(work["collective_id"], -1)
    ready_ns = np.where(work["ready_ns"].is_null().to_numpy(), begin, filled(work["ready_ns"], 0))
    return StepGraph(
        step=step,
        start_ns=_begin(windows),
        end_ns=int(windows["window_end_ns"].to_numpy().max()),
        work=work.select("rank", "kind", "name", *_OF_COLLECTIVES),
        rank=rank, start=start, end=end, begin=begin, collective=collective,
        before=before, inside=inside,
        on_stream=_on_stream(work),
        last=_last(collective, start, end),
        ready=_ready(work, start + lane, end + lane, ready_ns + lane),
        ready_ns=ready_ns,
        loading=_loading(job, clocks, windows, ranks, room),
        lane=lane,
    )  # fmt: skip


def _windows(job: Job, clocks: pl.DataFrame, step: int) -> pl.DataFrame:
    """The windows of the step on the ranks whose clocks compare."""
    found = job.table("steps").filter(pl.col("step") == step).collect().unique("rank", keep="first")
    known = clocks.filter(pl.col("fitted") | (pl.col("reference") == pl.col("rank")))
    known = known.join(found, on="rank", how="semi")
    most = known.group_by("reference").len().sort("len", "reference", descending=[True, False])
    same = known.join(most.head(1), on="reference", how="semi")
    edges = ("window_start_ns", "window_end_ns")
    own = found.join(same, on="rank", how="semi").select(
        "rank", *edges, pl.col(edges).name.prefix("own_")
    )
    return aligned(own, clocks, *edges).sort("rank")


def _begin(windows: pl.DataFrame) -> int:
    """When the last rank has ended the step before; where ranks number other steps, the first."""
    begin, end = (windows[name].to_numpy() for name in ("window_start_ns", "window_end_ns"))
    return int(begin.max() if begin.max() < end.max() else begin.min())


def _work(
    job: Job, matched: MatchedCollectives, clocks: pl.DataFrame, windows: pl.DataFrame
) -> pl.DataFrame:
    """Spans and collectives in the windows of the step, and one row for the end of each window."""
    spans = job.table("spans").filter(pl.col("collective").is_null())
    spans = spans.with_columns(pl.col("kind").replace_strict(_KINDS)).select(
        pl.lit(None, kind).alias(name) if name in _OF_COLLECTIVES else pl.col(name).cast(kind)
        for name, kind in _COLUMNS.items()
    )
    inside = (
        pl.concat([spans, _collectives(job, matched)])
        .join(windows.lazy(), on="rank")
        .filter(
            pl.col("start_ns") < pl.col("own_window_end_ns"),
            pl.col("end_ns") > pl.max_horizontal("own_window_start_ns", "start_ns"),
        )
        .select(*_COLUMNS, "window_start_ns")
        .collect()
    )
    ends = windows.select(
        "rank",
        pl.lit(FINISH, _KIND).alias("kind"),
        pl.col("window_end_ns").alias("start_ns"),
        (pl.col("window_end_ns") + 1).alias("end_ns"),
        "window_start_ns",
    )
    found = pl.concat(
        [aligned(inside, clocks, "start_ns", "end_ns", "ready_ns"), ends], how="diagonal"
    )
    finish = (pl.col("kind") == FINISH).alias("finish")
    lasting = pl.max_horizontal("end_ns", pl.col("start_ns") + 1)  # on a clock that is slower too
    found = found.with_columns(finish, lasting, pl.col("stream").fill_null(_NO_STREAM))
    return found.sort("rank", "finish", "start_ns", "end_ns", "stream")


def _collectives(job: Job, matched: MatchedCollectives) -> pl.LazyFrame:
    """The collectives of all ranks; one on the host has a queue apart from the GPU's streams."""
    sizes = roles(job).group_by(pl.col("label").alias("group")).agg(pl.col("size").max())
    stated = pl.coalesce("group_size", "size")
    ranks = pl.when(pl.col("collective") == "send").then(2).otherwise(stated)
    complete = matched.collectives.join(sizes, on="group", how="left").select(
        "collective_id", (pl.col("present") >= ranks).alias("complete")
    )
    met = matched.arrivals.select("collective_id", "rank", "id").join(complete, on="collective_id")
    stream = pl.col("stream").fill_null(0)
    return (
        job.table("collectives")
        .join(met.lazy(), on=("rank", "id"), how="left")
        .with_columns(
            pl.lit(TRANSFER, _KIND).alias("kind"),
            pl.col("collective").fill_null("").cast(pl.Categorical).alias("name"),
            pl.when("on_host").then(-1 - stream).otherwise(stream).alias("stream"),
            pl.lit(1, pl.Int64).alias("count"),
            pl.col("collective_id").cast(pl.Int64),
            pl.max_horizontal("end_ns", pl.col("start_ns") + 1),
        )
        .select(*_COLUMNS)
    )


def _before(work: pl.DataFrame, start: Ints, end: Ints) -> tuple[Ints, Bools]:
    """What each row waited for, and whether it started under it."""
    rank, stream, kind = work["rank"].to_numpy(), work["stream"].to_numpy(), work["kind"]
    by_end = np.argsort(end, kind="stable")
    place = np.searchsorted(end[by_end], start, side="right") - 1
    ended = np.where(place >= 0, by_end[place], -1)
    ended = np.where((ended >= 0) & (rank[ended] == rank), ended, -1)
    queued = (ended >= 0) & (start - end[ended] <= QUEUED_NS)
    queued &= kind.is_in([COMPUTE, FINISH]).to_numpy() | (stream[ended] == stream)
    several = kind.is_in([COMPUTE, COPIES]).to_numpy() & (work["count"].fill_null(1).to_numpy() > 1)
    merged = np.flatnonzero(several)
    if not len(merged):
        return ended, np.zeros(len(start), bool)
    under = innermost(start[merged], end[merged], start - 1)
    inside = ~queued & (under >= 0)
    return np.where(inside, merged[under], ended), inside


def _ready(work: pl.DataFrame, start: Ints, end: Ints, moments: Ints) -> Ints:
    """The compute or copy that runs at each moment, for rows that have one."""
    rows = np.flatnonzero(work["kind"].is_in([COMPUTE, COPIES]).to_numpy())
    if not len(rows):
        return np.full(len(start), -1)
    under = innermost(start[rows], end[rows], moments - 1)
    known = (under >= 0) & work["ready_ns"].is_not_null().to_numpy()
    return np.where(known & (start[rows[under]] < start), rows[under], -1)


def _on_stream(work: pl.DataFrame) -> Ints:
    """The row before each on its stream, if it has ended when the row starts."""
    rows = work.select("rank", "stream", "start_ns", "end_ns", "finish").with_row_index("row")
    earlier = pl.col("row").cast(pl.Int64).shift(1).over("rank", "stream")
    ended = pl.col("end_ns").shift(1).over("rank", "stream") <= pl.col("start_ns")
    found = rows.select(pl.when(ended & ~pl.col("finish")).then(earlier).fill_null(-1))
    return found.to_series().to_numpy()


def _last(collective: Ints, start: Ints, end: Ints) -> Ints:
    """Of each row's collective, the row that came last before the row's end; other rows: itself."""
    rows = np.flatnonzero(collective >= 0)
    found = np.arange(len(collective))
    if len(rows):
        low = int(start[rows].min())
        number = coded(collective[rows])[1] * (int(end[rows].max()) - low + 1)
        arrived = number + start[rows] - low
        order = np.argsort(arrived, kind="stable")
        place = np.searchsorted(arrived[order], number + end[rows] - low, side="left") - 1
        found[rows] = rows[order[place]]
    return found


def _loading(
    job: Job, clocks: pl.DataFrame, windows: pl.DataFrame, ranks: Ints, room: int
) -> IntervalUnion:
    begin, until = pl.col("own_window_start_ns"), pl.col("own_window_end_ns")
    inside = (
        job.table("host")
        .filter(pl.col("kind") == "data")
        .join(windows.lazy(), on="rank")
        .filter(pl.col("start_ns") < until, pl.col("end_ns") > begin)
        .select("rank", pl.max_horizontal("start_ns", begin), pl.min_horizontal("end_ns", until))
        .collect()
    )
    found = aligned(inside, clocks, "start_ns", "end_ns")
    shift = np.searchsorted(ranks, found["rank"].to_numpy()) * room
    return IntervalUnion(*(found[name].to_numpy() + shift for name in ("start_ns", "end_ns")))


HOST, DATA, COMMS = "host", "data", "comms"
_SCHEMA = columns("rank kind:s name:s collective_id start_ns end_ns")
_Segment = tuple[int, str, str, int | None, int, int]


class CriticalPath(Struct, frozen=True):
    """`segments` in order of time: rank, kind, name, collective_id (of a transfer), start_ns,
    end_ns.

    Kinds are compute, transfer, host, data and copies. A transfer counts for the rank in which the
    path leaves it. `comms` is a collective that not all its ranks recorded: a wait for the others
    may be in it. Times are on the clock of the lowest rank. `compared` counts the ranks whose
    clocks compare: no other can be on the path.
    """

    step: int
    start_ns: int
    end_ns: int
    segments: pl.DataFrame
    compared: int

    @property
    def length_ns(self) -> int:
        """The step of the job, from the end of the one before."""
        return self.end_ns - self.start_ns

    def by(self, *columns: str) -> pl.DataFrame:
        """The time of the path by kind, rank or name; the longest first."""
        spent = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
        found = self.segments.group_by(columns, maintain_order=True).agg(spent)
        return found.sort("ns", descending=True, maintain_order=True)


def walked(steps: StepGraph) -> CriticalPath:
    """The critical path of a graph."""
    kept = [
        (*about, max(start, steps.start_ns), end)
        for *about, start, end in _back(steps)
        if end > max(start, steps.start_ns)
    ]
    segments = pl.DataFrame(kept[::-1], schema=_SCHEMA, orient="row")
    compared = len(steps.finishes)
    return CriticalPath(steps.step, steps.start_ns, steps.end_ns, segments, compared)


def _back(steps: StepGraph) -> Iterator[_Segment]:
    """The segments from the end of the step to before its start."""
    columns = [steps.work[name] for name in ("kind", "name", "collective_id", "complete")]
    finishes = steps.finishes
    row = int(finishes[np.argmax(steps.start[finishes])])
    until = int(steps.start[row])
    while until > steps.start_ns:
        kind, name, collective, complete = (column[row] for column in columns)
        last = int(steps.last[row])
        start = int(steps.start[last])
        if kind != FINISH:
            kind = COMMS if kind == TRANSFER and not complete else kind
            yield int(steps.rank[row]), kind, name, collective, start, until
        row, since = last, start
        earlier = int(steps.before[row])
        if earlier < 0:
            yield from _idle(steps, row, steps.start_ns, since)
            return
        until = since
        reached = int(steps.end[earlier])
        if not steps.inside[row] and reached < since:
            yield from _idle(steps, row, reached, since)
            until = reached
        row = earlier


def _idle(steps: StepGraph, row: int, start: int, end: int) -> Iterator[_Segment]:
    """Idle time before a row, the last first: its data loader, and the rest of its host."""
    rank, lane, loading = int(steps.rank[row]), int(steps.lane[row]), steps.loading
    low = np.searchsorted(loading.end, start + lane, "right")
    high = np.searchsorted(loading.start, end + lane, "left")
    for at in range(int(high) - 1, int(low) - 1, -1):
        begun = max(int(loading.start[at]) - lane, start)
        done = min(int(loading.end[at]) - lane, end)
        yield rank, HOST, "", None, done, end
        yield rank, DATA, "", None, begun, done
        end = begun
    yield rank, HOST, "", None, start, end
