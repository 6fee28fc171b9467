"""The graph of a step, replayed forward with changed times, for several changes at once.

Work that waits only for other work of its own rank is folded into what follows it: what remains are
the points at which ranks or streams meet. The points are computed in levels, each level at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from foretrace.analyze.jobs.dependencies import COMPUTE, COPIES, FINISH, TRANSFER, StepGraph
from foretrace.analyze.jobs.spending import KINDS, Curve, Spending
from foretrace.model.intervals import Bools, Floats, Ints, split_by


class StepChange(Struct, frozen=True):
    """What is left of the transfers of some collectives, and what becomes of the times that a rank
    spends.
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
        self.steps, self.spending = steps, Spending(steps)
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
        self._meet()
        self._sources = [self._points(each.source) for each in self._edges_of]
        self._levels = self._level()
        self._finish = self._number[np.flatnonzero(finish)]

    def ends(self, changes: Sequence[StepChange]) -> Floats:
        """When the step ends with each change, from its start."""
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
        found: Floats = at[self._finish].max(axis=0)
        return found

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
                    self.spending.spent(kind, rows[mine], moments[mine]).astype(np.float64)
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
        """Edges that begin at points: what lies between is added to their times."""
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

    def _meet(self) -> None:
        """The collectives that several ranks met in, and the points that are their arrivals."""
        steps, count = self.steps, len(self.rows)
        met = np.flatnonzero(steps.collective >= 0)
        number = np.unique(steps.collective[met], return_inverse=True)[1].reshape(-1)
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
