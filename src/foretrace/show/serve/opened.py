"""A trace that requests read: plain data, so that it outlives the process that read the file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from foretrace.model.trace import Trace
from foretrace.show.html.page import Packed, pack
from foretrace.show.html.timeline import Timeline
from foretrace.show.serve.ranges import Ranges
from foretrace.show.serve.tiles import Tiles
from foretrace.show.serve.ways import Ways

MOST_FOUND = 5000


class PreparedTrace(Struct, frozen=True):
    """One trace: where its events are, their names, and the rest as the JSON the page reads.

    `shorts` are the decoded names of kernels, by the number of the name.
    """

    timeline: Timeline
    names: list[str]
    shorts: dict[int, str]
    ranges: Ranges
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
        self.timeline, self.ranges, self.facts = prepared.timeline, prepared.ranges, prepared.facts
        short = prepared.shorts.get
        texts = enumerate(prepared.names)
        self._names = [f"{name}\n{short(number, '')}".lower() for number, name in texts]
        self.tiles, self.ways = Tiles(self.timeline), Ways(self.timeline)
        self._trace, self._again = trace, again

    @property
    def trace(self) -> Trace:
        """The trace itself."""
        return self._trace or self._again()

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

    def launches(self, kernel: int) -> Packed:
        """All launches of a kernel by case, each with the step that it was launched in."""
        rows = self.ways.launches(kernel)
        columns = {name: self.timeline.columns[name][rows] for name in ("event", "start", "length")}
        columns["step"] = self.ways.steps_of(rows)
        return pack(columns, frozenset({"event", "start"}))
