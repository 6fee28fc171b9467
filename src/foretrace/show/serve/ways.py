"""From an event to others: what is around it, what it launched, and the next one in a direction."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from foretrace.base.errors import UsageError
from foretrace.model.intervals import Ints
from foretrace.schema.tables import KINDS, WORK_KINDS
from foretrace.show.html.timeline import Timeline

MOST_RELATED = 300
WORK = tuple(KINDS.index(kind) for kind in WORK_KINDS)
DIRECTIONS = ("next", "previous", "up", "down")


class Ways:
    """The ways through one timeline; all answers are rows of its columns."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.columns = timeline, timeline.columns
        # where each event is drawn, or -1; the last place is that of events without a place
        self._rows = np.full(int(timeline.event.max(initial=0)) + 2, -1, np.int32)
        self._rows[timeline.event] = np.arange(len(timeline))
        # computed now, while the user waits for the trace anyway
        _ = self._launches, self._in_order

    def related(self, event: int) -> Ints:
        """The rows of an event, of its callers, of what it launched, and of what launched it."""
        if (own := self._row_of(event)) < 0:
            return np.empty(0, np.int64)
        found = self._chain(own)
        launched = self._launched_by(own)
        for row in [*(row for row in found if self.columns["launch"][row] >= 0), *launched]:
            launch = self._row_of(int(self.columns["launch"][row]))
            found += [row, *(self._chain(launch) if launch >= 0 else [])]
        return np.unique(np.array(found, np.int64))

    def neighbour(self, event: int | None, way: str, time: int) -> int | None:
        """The event that a step leads to; from nothing, the first after `time`."""
        if way not in DIRECTIONS:
            raise UsageError(f"way must be one of {', '.join(DIRECTIONS)}")
        row = -1 if event is None else self._row_of(event)
        found = self._first(time) if row < 0 else self._from(row, way)
        return None if found < 0 else int(self.timeline.event[found])

    def launches(self, case: int) -> Ints:
        """All launches of a kernel by case, in order of time."""
        order = self._in_order[0]
        found: Ints = order[self.columns["case"][order] == case]
        return found[np.argsort(self.timeline.start[found], kind="stable")]

    def steps_of(self, rows: Ints) -> Ints:
        """The step in which each of these was launched, or -1."""
        steps, (work, launch) = self.timeline.steps, self._launches
        found = np.full(len(rows), -1, np.int64)
        at = np.minimum(np.searchsorted(work, rows), max(len(work) - 1, 0))
        linked = np.flatnonzero(work[at] == rows) if len(work) else np.empty(0, np.int64)
        time = self.timeline.start[launch[at[linked]]]
        step = np.searchsorted(np.array([each.start for each in steps]), time, "right") - 1
        inside = np.array([*(each.end for each in steps), -1])[step] > time
        found[linked] = np.where(inside, step, -1)
        return found

    def _from(self, row: int, way: str) -> int:
        if way == "up":
            return self._above(row)
        if way == "down":
            return self._below(row)
        return self._beside(row, 1 if way == "next" else -1)

    def _first(self, time: int) -> int:
        """The first GPU operation after a time; of a recording without a GPU, the first event."""
        rows = self._in_order[0] if len(self._in_order[0]) else np.arange(len(self.timeline))
        start = self.timeline.start[rows]
        later = np.flatnonzero(start >= time)
        return int(rows[later[np.argmin(start[later])]]) if len(later) else -1

    def _beside(self, row: int, step: int) -> int:
        """Along launch order on the GPU, along its row on the host."""
        order, place = self._in_order
        if place[row] >= 0:
            at = int(place[row]) + step
            return int(order[at]) if 0 <= at < len(order) else -1
        lane, own = self.timeline.lane, self.timeline.row
        at = row + step
        inside = 0 <= at < len(self.timeline) and lane[at] == lane[row] and own[at] == own[row]
        return at if inside else -1

    def _above(self, row: int) -> int:
        launch = int(self.columns["launch"][row])
        return self._row_of(launch if launch >= 0 else int(self.columns["parent"][row]))

    def _below(self, row: int) -> int:
        """The first range inside it, else the first GPU operation that it launched."""
        inside = np.flatnonzero(self.columns["parent"] == self.timeline.event[row])
        if len(inside):
            return int(inside[np.argmin(self.timeline.start[inside])])
        return next(iter(self._launched_by(row)), -1)

    def _row_of(self, event: int) -> int:
        return int(self._rows[event]) if 0 <= event < len(self._rows) else -1

    def _chain(self, row: int) -> list[int]:
        """A row and those of its callers, innermost first."""
        found = [row]
        while (up := self._row_of(int(self.columns["parent"][found[-1]]))) >= 0:
            found.append(up)
        return found

    def _launched_by(self, row: int) -> list[int]:
        """Rows of GPU operations launched by a host event or by what it called on its thread."""
        columns, (work, launch) = self.columns, self._launches
        start, end = columns["start"][row], columns["start"][row] + columns["length"][row]
        begins = columns["start"][launch]
        inside = (begins >= start) & (begins + columns["length"][launch] <= end)
        inside &= columns["lane"][launch] == columns["lane"][row]
        inside &= columns["row"][launch] >= columns["row"][row]
        return [int(each) for each in work[np.flatnonzero(inside)[:MOST_RELATED]]]

    @cached_property
    def _launches(self) -> tuple[Ints, Ints]:
        """Rows of GPU work whose launch is drawn, and the rows of those launches."""
        work = np.flatnonzero(self.columns["launch"] >= 0)
        launch = self._rows[np.minimum(self.columns["launch"][work], len(self._rows) - 1)]
        return work[launch >= 0], launch[launch >= 0].astype(np.int64)

    @cached_property
    def _in_order(self) -> tuple[Ints, Ints]:
        """Rows of GPU work in launch order, and the place of every row in it, or -1."""
        work = np.flatnonzero(np.isin(self.columns["kind"], WORK))
        launched = self.timeline.start.copy()
        launched[self._launches[0]] = self.timeline.start[self._launches[1]]
        order: Ints = work[np.lexsort((self.timeline.start[work], launched[work]))]
        place: Ints = np.full(len(self.timeline), -1, np.int32)  # there are millions of them
        place[order] = np.arange(len(order))
        return order, place
