"""What a step would take if one thing changed: the graph of the step, replayed forward.

How it is computed: all work starts as soon as the work that it waited for has ended, after the same
pause, and not before the previous work on its stream has ended. A transfer starts when the last
rank has arrived. With nothing changed, the replay gives the recorded times. A free collective
transfers in no time, and its ranks still wait for each other. A rank at the median has its compute
and its idle time shortened to the median of the ranks that do the same part of the step.

Work that waits only for work of its own rank is folded into what follows it. The points that remain
are those where ranks or streams join. They are computed level by level, for several changes at
once.

When it is wrong: it is an estimate. Work that starts earlier in the replay might have to wait for
something else. Work that shares the GPU with a collective keeps its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.analyze.jobs.critical_path import (
    COMMS,
    COMPUTE,
    COPIES,
    FINISH,
    TRANSFER,
    CriticalPath,
    StepGraph,
)
from foretrace.analyze.jobs.exposure import stages
from foretrace.analyze.jobs.matched_collectives import MatchedCollectives, roles
from foretrace.analyze.jobs.whole_job import Job
from foretrace.base.arrays import coded, filled
from foretrace.model.intervals import Bools, Floats, IntervalUnion, Ints, split_by
from foretrace.schema.documents.job import JobWhatIf

IDLE = "idle"
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
    `curves` map the times of a rank to shorter ones.
    """

    collectives: frozenset[int] = frozenset()
    left: float = 0.0
    rank: int | None = None
    curves: dict[str, Curve] = {}


class Edges(Struct):
    """The row that each row waits for, and the time from its start, by what that is spent on.

    `transfer` is the time in a collective `source`, counted from the arrival of the last rank;
    `spent` has one array for each of `KINDS`, spent until the moment `until`. Without a source,
    the time counts from the start of the step.
    """

    source: Ints
    until: Ints
    spent: list[Ints]
    other: Ints
    transfer: Ints

    def of(self, rows: Ints) -> Edges:
        """The edges of some rows."""
        spent = [each[rows] for each in self.spent]
        source, until = self.source[rows], self.until[rows]
        return Edges(source, until, spent, self.other[rows], self.transfer[rows])


class Replay:
    """A step that can be replayed. `rows` are the rows of the graph that are points.

    Points are numbered by their place in `rows`; behind them come the collectives, each the moment
    at which its last rank arrives, and then the start of the step.
    """

    def __init__(self, steps: StepGraph) -> None:
        self.steps, self.progress = steps, ProgressCurves(steps)
        kind = steps.work["kind"]
        self.talks = (kind == TRANSFER).to_numpy()
        self._works = [(kind == each).to_numpy() for each in (COMPUTE, COPIES)]
        finish = (kind == FINISH).to_numpy()
        joins = (steps.on_stream >= 0) & (steps.on_stream != steps.before)
        follows = (steps.before < 0) | self.talks[steps.before]
        points = self.talks | follows | joins | finish
        self.rows = np.flatnonzero(points)
        self._number = np.cumsum(points) - 1
        pause = np.where(steps.inside, 0, steps.start - steps.end[steps.before])
        first = self._edges(steps.before, steps.inside, steps.start, pause)
        # a stream is a queue, whose next work may follow at once; a collective needs its input
        needs = ~joins & (steps.ready >= 0) & (steps.ready != steps.before)
        more, inside = joins | needs, np.where(joins, False, needs | steps.inside)
        then = np.where(joins, steps.on_stream, np.where(needs, steps.ready, steps.before))
        until = np.where(needs, steps.ready_ns, steps.start)
        second = self._edges(then, inside, until, np.where(more, 0, pause))
        self._edges_of = [each.of(self.rows) for each in self._folded(first, second, points)]
        self._join_ranks()
        self._sources = [self._points(each.source) for each in self._edges_of]
        self._levels = self._level()
        self._finish = self._number[np.flatnonzero(finish)]

    def lengths(self, changes: Sequence[StepChange]) -> list[int]:
        """The length of the step with each of these changes."""
        if not changes:
            return []
        count = len(self.rows)
        at = np.zeros((self._start + 1, len(changes)))
        costs = [
            np.stack([self._cost(each, change) for change in changes], 1) for each in self._edges_of
        ]
        for level in self._levels:
            points = level[level < count]
            first, second = (at[self._sources[way][points]] + costs[way][points] for way in (0, 1))
            at[points] = np.maximum(first, second)
            for collective in (level[level >= count] - count).tolist():
                at[count + collective] = at[self._members[collective]].max(axis=0)
        return [round(end) for end in at[self._finish].max(axis=0).tolist()]

    def _cost(self, edges: Edges, change: StepChange) -> Floats:
        """The time along each edge with a change."""
        steps, rows = self.steps, self.rows
        collective = np.where(edges.source >= 0, steps.collective[edges.source], -1)
        free = np.isin(collective, list(change.collectives))
        found = np.asarray(edges.other + edges.transfer * np.where(free, change.left, 1.0))
        mine = np.flatnonzero(steps.rank[rows] == change.rank)
        since = np.where(edges.source >= 0, steps.start[edges.source], steps.begin[rows])
        for kind, spent in zip(KINDS, edges.spent, strict=True):
            found += spent
            if curve := change.curves.get(kind):
                ends = [
                    self.progress.spent(kind, rows[mine], moments[mine]).astype(np.float64)
                    for moments in (since, edges.until)
                ]
                passed = np.maximum(ends[1] - ends[0], 1)
                left = (np.interp(ends[1], *curve) - np.interp(ends[0], *curve)) / passed
                found[mine] += spent[mine] * (left - 1)
        return found

    def _edges(self, before: Ints, inside: Bools, until: Ints, gap: Ints) -> Edges:
        steps, none = self.steps, before < 0
        whole = steps.end - steps.start
        length = np.where(inside, until - steps.start[before], whole[before])
        waited = np.maximum(steps.start - steps.begin, 0)
        spent = [np.where(works[before] & ~none, length, 0) for works in self._works]
        idle = np.where(none, waited, gap)
        other = np.where(none, steps.start - waited - steps.start_ns, 0)
        transfer = (steps.end - steps.start[steps.last])[before]
        talk = self.talks[before] & ~none
        return Edges(before, until, [*spent, idle], other, np.where(talk, transfer, 0))

    def _folded(self, first: Edges, second: Edges, points: Bools) -> list[Edges]:
        """Edges that begin at points: the times of the rows in between are added."""
        above = np.where(points, np.arange(len(points)), first.source)
        spent = [np.where(points, 0, each) for each in (*first.spent, first.other)]
        while not points[above].all():
            spent = [each + each[above] for each in spent]
            above = above[above]
        return [self._moved(edges, above, spent) for edges in (first, second)]

    def _moved(self, edges: Edges, above: Ints, more: list[Ints]) -> Edges:
        source = edges.source
        moved = (source >= 0) & ~self.talks[source]
        own = (*edges.spent, edges.other)
        *spent, other = (
            times + np.where(moved, added[source], 0)
            for times, added in zip(own, more, strict=True)
        )
        point = np.where(moved, above[source], source)
        return Edges(point, edges.until, spent, other, edges.transfer)

    def _join_ranks(self) -> None:
        """The collectives that several ranks recorded, and the points that are their arrivals."""
        steps, count = self.steps, len(self.rows)
        met = np.flatnonzero(steps.collective >= 0)
        number = coded(steps.collective[met])[1]
        self._members = [self._number[rows] for rows in split_by(number, met)]
        self._collective = np.full(len(steps.rank), -1)
        self._collective[met] = number
        self._start = count + len(self._members)

    def _points(self, source: Ints) -> Ints:
        """Where edges begin: at a point, at the last arrival of a collective, or at the start."""
        steps, count = self.steps, len(self.rows)
        talk, last = self.talks[source], steps.last[source]
        latest = np.zeros(len(self._members) + 1, np.int64)  # the last is for work of no collective
        met = self._collective >= 0
        np.maximum.at(latest, self._collective[met], steps.start[met])
        collective = self._collective[source]
        # a rank that left before the last one came did not wait for it
        all_of_it = talk & (collective >= 0) & (steps.start[last] == latest[collective])
        own = np.where(talk, self._number[last], self._number[source])
        found = np.where(all_of_it, count + collective, own)
        return np.where(source < 0, self._start, found)

    def _level(self) -> list[Ints]:
        """Points and collectives of each level."""
        count = len(self.rows)
        level = [0] * (self._start + 1)
        first, second = (each.tolist() for each in self._sources)
        collective = self._collective[self.rows].tolist()
        for point in np.argsort(self.steps.start[self.rows], kind="stable").tolist():
            mine = level[point] = max(level[first[point]], level[second[point]]) + 1
            if (met := collective[point]) >= 0:
                level[count + met] = max(level[count + met], mine + 1)
        numbers = np.arange(self._start)
        return split_by(np.array(level[:-1], np.int64), numbers)


_SPENT = (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
MOST = 3  # of each kind: those that have the most time on the path


def what_ifs(
    job: Job,
    steps: StepGraph,
    path: CriticalPath,
    matched: MatchedCollectives,
    late: Collection[int] = (),
    slow: pl.DataFrame | None = None,
) -> list[JobWhatIf]:
    """What the changes with the most time on the path save, and those of suspects: ranks that come
    late, and the hosts in what `outliers` gives. The largest first; a suspect may save nothing.
    """
    replay = Replay(steps)
    rows = [
        *_free(job, path, matched),
        *_slow(replay, path, stages(matched), late),
        *_hosts(job, matched, slow),
    ]
    lengths = replay.lengths([change for _, change in rows])
    found = [
        replace(each, saves_ns=max(path.length_ns - length, 0))
        for (each, _), length in zip(rows, lengths, strict=True)
        if length < path.length_ns or each.rank in late or each.kind == "host"
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
    replay: Replay, path: CriticalPath, stage: dict[int, int], late: Collection[int]
) -> Iterator[tuple[JobWhatIf, StepChange]]:
    """The ranks with the most time on the path and those that come late, at the median of their
    stage.
    """
    own = path.segments.filter(~pl.col("kind").is_in([TRANSFER, COMMS])).select("rank", _SPENT)
    longest = own.group_by("rank", maintain_order=True).agg(pl.col("ns").sum())
    ranks = replay.steps.rank[replay.steps.finishes].tolist()
    on_path = longest.top_k(MOST, by="ns")["rank"].to_list()
    for rank in dict.fromkeys([*on_path, *(rank for rank in late if rank in ranks)]):
        peers = [each for each in ranks if stage.get(each) == stage.get(rank)]
        curves = replay.progress.at_median(rank, peers)
        yield JobWhatIf("rank", f"rank {rank}", rank, 0), StepChange(rank=rank, curves=curves)


def _hosts(
    job: Job, matched: MatchedCollectives, slow: pl.DataFrame | None
) -> Iterator[tuple[JobWhatIf, StepChange]]:
    """Slow hosts with the bandwidth that is usual."""
    for row in slow.filter(kind="host").iter_rows(named=True) if slow is not None else ():
        ranks = [each.rank for each in job.members if each.host == row["what"]]
        met = (
            matched.arrivals.filter(pl.col("rank").is_in(ranks))["collective_id"].unique().to_list()
        )
        left = row["bus_gbps"] / row["usual_gbps"]
        what = f"network of {row['what']}"
        yield JobWhatIf("host", what, None, 0), StepChange(frozenset(met), left)
