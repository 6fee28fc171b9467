"""A trace that requests read: its tiles, what belongs to an event, and search.

The page itself computes ranges and the way from one event to the next, as it does in a report. It
reads the columns of the GPU work for that, and around a host event what `related` answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec
import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.show.html.page import Packed
from foretrace.show.html.timeline import Timeline
from foretrace.show.serve.tiles import WORK, Tiles

MOST_RELATED = 300
MOST_FOUND = 5000


class PreparedTrace(Struct, frozen=True):
    """One trace: where its events are, their names, and the rest as the JSON the page reads.

    `shorts` are the decoded names of kernels, by the number of the name. `calls` are the rows of
    the calls that launch kernels. All of it is plain data that outlives the process that read it.
    """

    timeline: Timeline
    names: list[str]
    shorts: dict[int, str]
    calls: Ints
    facts: bytes


class SearchResult(Struct):
    """How many events match, how many of each name, and the first of them in order of time."""

    count: int
    names: list[tuple[int, int]]
    events: Packed


class OpenTrace:
    """One trace that requests read; a large one is not kept, but opened `again` when needed."""

    def __init__(
        self, prepared: PreparedTrace, trace: Trace | None, again: Callable[[], Trace]
    ) -> None:
        self.timeline, self.facts = prepared.timeline, prepared.facts
        texts = enumerate(prepared.names)
        short = prepared.shorts.get
        self._names = [f"{name}\n{short(number, '')}".lower() for number, name in texts]
        self.tiles, self.navigation = Tiles(self.timeline), Navigation(self.timeline)
        self._calls, self._trace, self._again = prepared.calls, trace, again

    @property
    def trace(self) -> Trace:
        """The trace itself."""
        return self._trace or self._again()

    @cached_property
    def work(self) -> bytes:
        """The GPU work with its launches and all launch calls, as the JSON the page reads.

        A recording without GPU work answers with all its events.
        """
        timeline, launches = self.timeline, self.navigation.launches[1]
        rows = np.flatnonzero(np.isin(timeline.columns["kind"], WORK))
        if len(rows):
            rows = distinct(np.concatenate((rows, launches, self._calls)))
        else:
            rows = np.arange(len(timeline))
        return msgspec.json.encode({"events": timeline.packed(rows)})

    def search(self, text: str) -> SearchResult:
        """Events whose name, as written or as decoded, contains a text."""
        wanted = text.lower()
        named = np.array([bool(wanted) and wanted in name for name in self._names], bool)
        numbers = self.timeline.columns["name"]
        rows = np.flatnonzero(named[numbers])
        first = rows[np.argsort(self.timeline.start[rows], kind="stable")[:MOST_FOUND]]
        counts = np.bincount(numbers[rows], minlength=len(named))
        found = np.flatnonzero(counts)
        names = list(zip(found.tolist(), counts[found].tolist(), strict=True))
        return SearchResult(len(rows), names, self.timeline.packed(first))


class Navigation:
    """From an event to the events that belong to it; all answers are rows of one timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.columns = timeline, timeline.columns
        # the row of each event, or -1; the last entry is for events that are not drawn
        self._rows = np.full(int(timeline.event.max(initial=0)) + 2, -1, np.int32)
        self._rows[timeline.event] = np.arange(len(timeline))
        work = np.flatnonzero(self.columns["launch"] >= 0)
        launch = self._rows[np.minimum(self.columns["launch"][work], len(self._rows) - 1)]
        # rows of GPU work whose launch is drawn, and the rows of those launches
        self.launches = work[launch >= 0], launch[launch >= 0].astype(np.int64)

    def related(self, event: int) -> Ints:
        """The rows of an event, its callers, what it launched, what launched it, its neighbours."""
        if (own := self._row_of(event)) < 0:
            return np.empty(0, np.int64)
        found = [*self._chain(own), *self._beside(own), *self._first_inside(own)]
        for row in [own, *self._launched_by(own)]:
            launch = self._row_of(int(self.columns["launch"][row]))
            found += [row, *(self._chain(launch) if launch >= 0 else [])]
        return distinct(np.array(found, np.int64))

    def _row_of(self, event: int) -> int:
        return int(self._rows[event]) if 0 <= event < len(self._rows) else -1

    def _chain(self, row: int) -> list[int]:
        """A row and those of its callers, innermost first."""
        found = [row]
        while (up := self._row_of(int(self.columns["parent"][found[-1]]))) >= 0:
            found.append(up)
        return found

    def _beside(self, row: int) -> list[int]:
        """The rows before and after, on the same row of the same lane."""
        lane, own = self.timeline.lane, self.timeline.row
        near = [at for at in (row - 1, row + 1) if 0 <= at < len(self.timeline)]
        return [at for at in near if lane[at] == lane[row] and own[at] == own[row]]

    def _first_inside(self, row: int) -> list[int]:
        """The first event that this one called."""
        inside = np.flatnonzero(self.columns["parent"] == self.timeline.event[row])
        return [int(inside[np.argmin(self.timeline.start[inside])])] if len(inside) else []

    def _launched_by(self, row: int) -> list[int]:
        """GPU operations launched by a host event or by what it called on its thread."""
        columns, (work, launch) = self.columns, self.launches
        start, end = columns["start"][row], columns["start"][row] + columns["length"][row]
        begins = columns["start"][launch]
        inside = (begins >= start) & (begins + columns["length"][launch] <= end)
        inside &= columns["lane"][launch] == columns["lane"][row]
        inside &= columns["row"][launch] >= columns["row"][row]
        return [int(each) for each in work[np.flatnonzero(inside)[:MOST_RELATED]]]
