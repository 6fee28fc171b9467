"""What a step would take if one thing changed: the graph of the step, replayed forward.

How it is computed: all work starts as soon as the work that it waited for has ended, after the same
pause, and not before the previous work on its stream has ended. A transfer starts when the last
rank has arrived. With nothing changed, `model.replay` gives the recorded times. What is changed is
in `docs/jobs.md` ("The critical path").

When it is wrong: it is an estimate. Work that starts earlier in the replay might have to wait for
something else. Work that shares the GPU with a collective keeps its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

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
from foretrace.analyze.jobs.network import SIZES, SLOW, link_text, transfers
from foretrace.analyze.jobs.rank_consistency import ranks_text
from foretrace.analyze.jobs.whole_job import Job
from foretrace.base.arrays import coded, filled
from foretrace.model.intervals import Floats, IntervalUnion, Ints
from foretrace.model.replay import Precedence
from foretrace.schema.documents.job import JobWhatIf

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
