"""The critical path through one step: what the step's end waited for, back to its start.

How it is computed: from the end of the step on the rank that ends last, back through the work that
ended before (`dependencies` says which), through a collective to the rank that came last to it, and
through idle time to the host. Waiting is never on the path: it leads to the rank that was waited
for. The step of the job begins when the last rank has ended the step before. The segments tile it.

When it is wrong: as in `dependencies`. A pause of a few microseconds counts for the host, though
the GPU needs some of it to start what is in its queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.analyze.jobs.dependencies import FINISH, TRANSFER, StepGraph, graph

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.matching import MatchedCollectives

HOST, DATA, COMMS = "host", "data", "comms"
_SCHEMA = {
    "rank": pl.Int64, "kind": pl.String, "name": pl.String, "collective_id": pl.Int64,
    "start_ns": pl.Int64, "end_ns": pl.Int64,
}  # fmt: skip
_Segment = tuple[int, str, str, int | None, int, int]


class CriticalPath(Struct, frozen=True):
    """`segments` in order of time: rank, kind, name, collective (of a transfer), start_ns, end_ns.

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


def path_of(job: Job, matched: MatchedCollectives, clocks: pl.DataFrame, step: int) -> CriticalPath | None:
    """The critical path of a step; None where no rank has it."""
    found = graph(job, matched, clocks, step)
    return None if found is None else walked(found)


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
