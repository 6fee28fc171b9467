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

What a step would take if one thing changed comes from its graph, replayed forward. All work starts
as soon as the work that it waited for has ended, after the same pause, and not before the previous
work on its stream has ended. A transfer starts when the last rank has arrived. With nothing
changed, `model.replay` gives the recorded times. What is changed is in `docs/jobs.md` ("The
critical path").

It is an estimate. Work that starts earlier in the replay might have to wait for
something else. Work that shares the GPU with a collective keeps its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import coded, filled
from foretrace.jobs.clocks import aligned
from foretrace.jobs.documents import JobWhatIf
from foretrace.jobs.exposure import stages
from foretrace.jobs.matched_collectives import MatchedCollectives, roles
from foretrace.jobs.network import SIZES, SLOW, link_text, transfers
from foretrace.jobs.rank_consistency import ranks_text
from foretrace.jobs.whole_job import Job, columns
from foretrace.trace.intervals import Bools, Floats, IntervalUnion, Ints, innermost
from foretrace.trace.replay import Precedence

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
    found = job.table("steps").filter(pl.col("step") == step).collect().unique("rank", keep="first")
    known = clocks.filter(pl.col("fitted") | (pl.col("reference") == pl.col("rank")))
    known = known.join(found, on="rank", how="semi")
    most = known.group_by("reference").len().sort("len", "reference", descending=[True, False])
    same = known.join(most.head(1), on="reference", how="semi")
    edges = ("window_start_ns", "window_end_ns")
    own = found.join(same, on="rank", how="semi").select(
        "rank", *edges, pl.col(edges).name.prefix("own_")
    )
    windows = aligned(own, clocks, *edges).sort("rank")
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


IDLE = "idle"
ROUNDS = 3  # of the step: what a rank gains at the end of one is its lead in the next
KINDS = (COMPUTE, COPIES, IDLE)
Curve = tuple[Floats, Floats]  # time spent so far, and the time that replaces it


class ProgressCurves:
    """The time that ranks have spent on each of `KINDS` since the start of their windows."""

    def __init__(self, steps: StepGraph) -> None:
        self.steps = steps
        kind = steps.work["kind"]
        begin, end = steps.start + steps.lane, steps.end + steps.lane
        rows = {name: (kind == name).to_numpy() for name in (COMPUTE, COPIES)}
        rows[IDLE] = (kind != FINISH).to_numpy()  # what is not idle
        self._covered = {
            name: IntervalUnion(begin[which], end[which]) for name, which in rows.items()
        }
        talks = (kind == TRANSFER).to_numpy()
        knots = np.flatnonzero(talks | (kind == FINISH).to_numpy())
        launch = filled(steps.work["launch_ns"], 0)[knots]
        self._knots = knots[np.lexsort((launch, ~talks[knots], steps.rank[knots]))]
        # a collective that was in the queue starts later than where the program has it
        before = steps.before[self._knots]
        self._queued = talks[self._knots] & (before >= 0) & talks[before]

    def spent(self, kind: str, rows: Ints, moments: Ints) -> Ints:
        """The time that the ranks of these rows have spent when these moments come."""
        begin = self.steps.begin[rows]
        lane, until = self.steps.lane[rows], np.maximum(moments, begin)
        covered = self._covered[kind].between(begin + lane, until + lane)
        return until - begin - covered if kind == IDLE else covered

    def at_median(self, rank: int, others: Collection[int]) -> dict[str, Curve]:
        """What the rank's times become with the median of the others: those that are longer.

        Ranks compare at each of their collectives, and so only with ranks that have as many.
        """
        knots = self._knots
        ranks, first, count = np.unique(
            self.steps.rank[knots], return_index=True, return_counts=True
        )
        own = np.flatnonzero(ranks == rank)
        same = np.isin(ranks, list(set(others) - {rank})) & np.isin(count, count[own])
        if not len(own) or not same.any():
            return {}
        places = np.arange(count[own[0]])
        mine, theirs = first[own[0]] + places, first[same][:, None] + places
        clear = ~self._queued[mine] & ~self._queued[theirs].all(axis=0)
        mine, theirs = mine[clear], theirs[:, clear]
        found = {}
        for kind in KINDS:
            spent = self.spent(kind, knots, self.steps.start[knots]).astype(np.float64)
            ours = spent[mine]
            usual = np.nanmedian(np.where(self._queued, np.nan, spent)[theirs], axis=0)
            if usual[-1] < ours[-1]:
                found[kind] = (np.append(0.0, ours), np.append(0.0, np.maximum.accumulate(usual)))
        return found


class StepChange(Struct, frozen=True):
    """A change of a step: `left` is the part that remains of the transfers of some collectives, and
    `curves` map the times of some ranks to shorter ones.
    """

    collectives: frozenset[int] = frozenset()
    left: float = 0.0
    curves: dict[int, dict[str, Curve]] = {}


class Edges(Struct):
    """What rows wait for, one edge after another: the time from the start of the `source`, by what
    that is spent on.

    `transfer` is the time in a collective `source`, counted from the arrival of the last rank;
    `spent` has one array for each of `KINDS`, spent until the moment `until`. Without a source
    (-1), the time counts from the start of the step.
    """

    row: Ints
    source: Ints
    until: Ints
    spent: list[Ints]
    other: Ints
    transfer: Ints


class Replay:
    """A step that can be replayed."""

    def __init__(self, steps: StepGraph) -> None:
        self.steps, self.progress = steps, ProgressCurves(steps)
        self.edges = self._edges()
        self._order, self._finish = self._precedence()

    def lengths(self, changes: Sequence[StepChange]) -> list[int]:
        """The length of the step with each of these changes, after some steps that have it too: a
        rank that ends a step earlier begins the next one earlier.
        """
        if not changes:
            return []
        costs = np.stack([self._cost(change) for change in (StepChange(), *changes)], 1)
        # ranks join a collective when they arrive
        costs = np.pad(costs, ((0, len(self._order.node) - len(costs)), (0, 0)))
        ranks, begins = self.steps.rank[self.steps.finishes], np.flatnonzero(self.edges.source < 0)
        own = np.searchsorted(ranks, self.steps.rank[self.edges.row[begins]])
        begin = self.steps.begin[self.steps.finishes][:, None]
        later, length = np.zeros((len(ranks), costs.shape[1])), np.zeros(costs.shape[1])
        for _ in range(ROUNDS):
            moved = costs.copy()
            moved[begins] += later[own]
            ends = self._order.times_of_each(moved)[self._finish]
            length = ends.max(axis=0) - ((begin + later).max(axis=0) - begin.max())
            behind = ends - ends.max(axis=0)
            later = behind - behind[:, :1]  # against the step as recorded
        return [round(each) for each in length[1:].tolist()]

    def _cost(self, change: StepChange) -> Floats:
        """The time along each edge with a change."""
        steps, edges = self.steps, self.edges
        collective = np.where(edges.source >= 0, steps.collective[edges.source], -1)
        free = np.isin(collective, list(change.collectives))
        found = np.asarray(edges.other + edges.transfer * np.where(free, change.left, 1.0))
        found += sum(edges.spent)
        for rank, curves in change.curves.items():
            mine = np.flatnonzero(steps.rank[edges.row] == rank)
            found[mine] -= self._saved(mine, curves)
        return found

    def _saved(self, mine: Ints, curves: dict[str, Curve]) -> Floats:
        """What shorter times of a rank take from its edges."""
        steps, edges = self.steps, self.edges
        rows, source, saved = edges.row[mine], edges.source[mine], np.zeros(len(mine))
        since = np.where(source >= 0, steps.start[source], steps.begin[rows])
        for kind, curve in curves.items():
            ends = [
                self.progress.spent(kind, rows, moments).astype(np.float64)
                for moments in (since, edges.until[mine])
            ]
            passed = np.maximum(ends[1] - ends[0], 1)
            left = (np.interp(ends[1], *curve) - np.interp(ends[0], *curve)) / passed
            saved += edges.spent[KINDS.index(kind)][mine] * (1 - left)
        return saved

    def _edges(self) -> Edges:
        """What each row waited for; then what it must not overtake: a stream is a queue, whose next
        work may follow at once, and a collective needs its input.
        """
        steps, before = self.steps, self.steps.before
        joins = (steps.on_stream >= 0) & (steps.on_stream != before)
        needs = ~joins & (steps.ready >= 0) & (steps.ready != before)
        queued, fed = np.flatnonzero(joins), np.flatnonzero(needs)
        since, lasted = steps.start[before], steps.end - steps.start
        waited = np.maximum(steps.start - steps.begin, 0)
        pause = np.where(steps.inside, 0, steps.start - steps.end[before])
        length = np.where(steps.inside, steps.start - since, lasted[before])
        ahead, under, ready_ns = steps.on_stream[queued], steps.ready[fed], steps.ready_ns[fed]
        every, idle = np.arange(len(before)), np.where(before < 0, waited, pause)
        parts = (
            (every, before, steps.start, length, idle),
            (queued, ahead, steps.start[queued], lasted[ahead], 0 * queued),
            (fed, under, ready_ns, ready_ns - steps.start[under], 0 * fed),
        )
        row, source, until, length, idle = map(np.concatenate, zip(*parts, strict=True))
        computes, copies, talks = (
            (steps.work["kind"] == kind).to_numpy()[source] & (source >= 0)
            for kind in (COMPUTE, COPIES, TRANSFER)
        )
        transfer = talks * (steps.end[source] - steps.start[steps.last[source]])
        other = np.where(source < 0, steps.start[row] - waited[row] - steps.start_ns, 0)
        spent = [computes * length, copies * length, idle]
        return Edges(row, source, until, spent, other, transfer)

    def _precedence(self) -> tuple[Precedence, Ints]:
        """The graph, whose last edges lead to collectives: each is the moment at which the last of
        its ranks arrives. And the nodes where the step ends.
        """
        steps, source, count = self.steps, self.edges.source, len(self.steps.rank)
        met = np.flatnonzero(steps.collective >= 0)
        number = coded(steps.collective[met])[1]
        latest = np.full(int(number.max(initial=-1)) + 2, np.iinfo(np.int64).min)
        np.maximum.at(latest, number, steps.start[met])
        collective = np.full(count, len(latest) - 1)  # the last is for work of no collective
        collective[met] = number
        # numbered in the order of time, a collective after its arrivals
        node = np.empty(count + len(latest) - 1, np.int64)
        in_time = np.argsort(np.append(steps.start, latest[:-1]), kind="stable")
        node[in_time] = np.arange(len(node)) + 1
        last, joined = steps.last[source], collective[source]
        # a rank that left before the last one came did not wait for it
        begins = node[np.where(steps.start[last] == latest[joined], count + joined, last)]
        order = Precedence(
            np.append(node[self.edges.row], node[count + number]),
            np.append(np.where(source < 0, 0, begins), node[met]),
        )
        return order, node[steps.finishes]


_SPENT = (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
MOST = 3  # of each kind: those that have the most time on the path


def what_ifs(
    job: Job,
    steps: StepGraph,
    path: CriticalPath,
    matched: MatchedCollectives,
    late: Iterable[Sequence[int]] = (),
    slow: pl.DataFrame | None = None,
) -> list[JobWhatIf]:
    """What the changes with the most time on the path save, and those of suspects: ranks that come
    late, alone or together, and what `outliers` gives. The largest first; a suspect may save
    nothing.
    """
    replay, suspects = Replay(steps), {tuple(sorted(ranks)) for ranks in late}
    rows = [
        *_free(job, path, matched),
        *_slow(replay, path, stages(matched), suspects),
        *_links(job, matched, slow),
    ]
    lengths = replay.lengths([change for _, change in rows])
    found = [
        replace(each, saves_ns=max(path.length_ns - length, 0))
        for (each, _), length in zip(rows, lengths, strict=True)
        if length < path.length_ns or tuple(each.ranks) in suspects or each.kind in LINKS
    ]
    return sorted(found, key=lambda each: -each.saves_ns)


def _free(
    job: Job, path: CriticalPath, matched: MatchedCollectives
) -> Iterator[tuple[JobWhatIf, StepChange]]:
    """The kinds of collective and group with the most time on the path, each free."""
    role = roles(job).select(pl.col("label").alias("group"), "role").unique("group", keep="first")
    known = matched.collectives.join(role, on="group", how="left").select(
        pl.col("collective_id").cast(pl.Int64),
        pl.coalesce("role", "group").alias("group"),
        "collective",
    )
    talks = (
        path.segments.filter(kind=TRANSFER)
        .select("collective_id", _SPENT)
        .join(known, on="collective_id")
    )
    kinds = talks.group_by("group", "collective", maintain_order=True).agg(pl.col("ns").sum())
    for group, collective, _ in kinds.top_k(MOST, by="ns").iter_rows():
        free = known.filter(group=group, collective=collective)["collective_id"]
        what = f"{collective}, group {group}" if group else collective
        yield JobWhatIf("collective", what, None, 0), StepChange(frozenset(free.to_list()))


def _slow(
    replay: Replay, path: CriticalPath, stage: dict[int, int], late: Iterable[tuple[int, ...]]
) -> Iterator[tuple[JobWhatIf, StepChange]]:
    """The ranks with the most time on the path and those that come late, at the median of the other
    ranks of their stage.
    """
    own = path.segments.filter(~pl.col("kind").is_in([TRANSFER, COMMS])).select("rank", _SPENT)
    longest = own.group_by("rank", maintain_order=True).agg(pl.col("ns").sum())
    ranks = replay.steps.rank[replay.steps.finishes].tolist()
    on_path = longest.top_k(MOST, by="ns")["rank"].to_list()
    for chosen in dict.fromkeys([*((rank,) for rank in on_path), *late]):
        curves = {}
        for rank in set(chosen).intersection(ranks):
            peers = [each for each in ranks if stage.get(each) == stage.get(rank)]
            curves[rank] = replay.progress.at_median(rank, set(peers).difference(chosen))
        one = chosen[0] if len(chosen) == 1 else None
        kind = "ranks" if one is None else "rank"
        what = JobWhatIf(kind, ranks_text(chosen), one, 0, list(chosen))
        yield what, StepChange(curves=curves)


LINKS = ("host", "group", "link")


def _links(
    job: Job, matched: MatchedCollectives, slow: pl.DataFrame | None
) -> Iterator[tuple[JobWhatIf, StepChange]]:
    """Slow hosts, groups and links with the bandwidth that is usual."""
    if slow is None or slow.is_empty():
        return
    sent = transfers(job, matched)
    for row in slow.unique("what", keep="first", maintain_order=True).iter_rows(named=True):
        own = sent.filter(link=row["what"])
        if row["kind"] == "host":
            ranks = [each.rank for each in job.members if each.host == row["what"]]
            met = matched.arrivals.filter(pl.col("rank").is_in(ranks)).select("collective_id")
            # those that are slow as well; of smaller messages, a low bandwidth says nothing
            own = sent.join(met, on="collective_id", how="semi").filter(
                pl.col("bus_gbps") < SLOW * row["usual_gbps"],
                pl.col("message_bytes") * SIZES >= row["message_bytes"],
            )
        left = row["bus_gbps"] / row["usual_gbps"]
        what = JobWhatIf(row["kind"], link_text(row["kind"], row["what"]), None, 0)
        yield what, StepChange(frozenset(own["collective_id"].to_list()), left)
