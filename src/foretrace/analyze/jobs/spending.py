"""How far each rank has come with its compute, its copies and its idle time, at any moment."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from foretrace.analyze.jobs.dependencies import COMPUTE, COPIES, FINISH, TRANSFER, StepGraph
from foretrace.model.intervals import Floats, IntervalUnion, Ints
from foretrace.schema.gaps import filled

IDLE = "idle"
KINDS = (COMPUTE, COPIES, IDLE)
Curve = tuple[Floats, Floats]  # time spent so far, and what it becomes


class Spending:
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
