"""Traces that are open or being opened, in a thread, so that the page can show progress.

Reading a trace takes several times the memory that looking at it does. So the viewer keeps a
`PreparedTrace`: the timeline's columns and the facts, plain data. Large files are read in a process
of their own, which gives all its memory back when it ends.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property

import msgspec
import numpy as np
from msgspec import Struct

from foretrace import opening
from foretrace.errors import ForetraceError, UsageError
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.render.html.changes import MARKS, comparison, marks
from foretrace.render.html.packing import Packed
from foretrace.render.html.tables import facts
from foretrace.render.html.timeline import CONFIG, Timeline
from foretrace.schema.documents.compare import CompareDocument
from foretrace.serve.catalog import Entry
from foretrace.serve.tiles import Tiles
from foretrace.sources import budget
from foretrace.sources.limits import Limits

MOST_OPEN = 4  # the least recently used is closed for the next
MOST_READ = 2  # at once; reading takes all cores and much memory
MOST_RELATED, MOST_FOUND = 300, 5000
# a few hundred thousand events, compressed or not: about half a second of reading
LARGE_BYTES = 32 << 20


class PreparedTrace(Struct, frozen=True):
    """One trace: where its events are, their names, and the rest as the JSON the page reads."""

    timeline: Timeline
    names: list[str]
    facts: bytes


class SearchResult(Struct):
    """How many events match, and the first of them in order of time."""

    count: int
    events: Packed


class OpenTrace:
    """One trace that requests read; a large one is not kept, but opened `again` when needed."""

    def __init__(
        self, prepared: PreparedTrace, trace: Trace | None, again: Callable[[], Trace]
    ) -> None:
        self.timeline, self.names, self.facts = prepared.timeline, prepared.names, prepared.facts
        self.tiles = Tiles(self.timeline)
        self._trace, self._again = trace, again
        _ = self._launches  # computed now, while the user waits for the trace anyway

    @property
    def trace(self) -> Trace:
        """The trace itself."""
        return self._trace or self._again()

    def related(self, event: int) -> Ints:
        """The rows of an event, of its callers, of what it launched, and of what launched it."""
        columns = self.timeline.columns
        if not len(own := self.timeline.rows_of(np.array([event]))):
            return own
        found = self._chain(int(own[0]))
        launched = self._launched_by(int(own[0]))
        for row in [*(row for row in found if columns["launch"][row] >= 0), *launched]:
            launch = self.timeline.rows_of(columns["launch"][[row]])
            found += [row, *(self._chain(int(launch[0])) if len(launch) else [])]
        return np.unique(np.array(found, np.int64))

    def _chain(self, row: int) -> list[int]:
        """A row and those of its callers, innermost first."""
        found = [row]
        while len(up := self.timeline.rows_of(self.timeline.columns["parent"][found[-1:]])):
            found.append(int(up[0]))
        return found

    def _launched_by(self, row: int) -> list[int]:
        """Rows of GPU operations launched by a host event or by what it called on its thread."""
        columns, (work, launch) = self.timeline.columns, self._launches
        start, end = columns["start"][row], columns["start"][row] + columns["length"][row]
        begins = columns["start"][launch]
        inside = (begins >= start) & (begins + columns["length"][launch] <= end)
        inside &= columns["lane"][launch] == columns["lane"][row]
        inside &= columns["row"][launch] >= columns["row"][row]
        return [int(each) for each in work[np.flatnonzero(inside)[:MOST_RELATED]]]

    @cached_property
    def _launches(self) -> tuple[Ints, Ints]:
        """Rows of GPU work whose launch is drawn, and the rows of those launches."""
        work = np.flatnonzero(self.timeline.columns["launch"] >= 0)
        wanted = self.timeline.columns["launch"][work]
        drawn = np.isin(wanted, self.timeline.event)
        return work[drawn], self.timeline.rows_of(wanted[drawn])

    def search(self, text: str) -> SearchResult:
        """Events whose name contains a text."""
        wanted = text.lower()
        named = np.array([bool(wanted) and wanted in name.lower() for name in self.names], bool)
        rows = np.flatnonzero(named[self.timeline.columns["name"]])
        first = rows[np.argsort(self.timeline.start[rows], kind="stable")[:MOST_FOUND]]
        return SearchResult(len(rows), self.timeline.packed(first))


def prepared(entry: Entry, limits: Limits, cache: bool) -> tuple[PreparedTrace, Trace]:
    """What the viewer keeps of a trace, and the trace."""
    trace = opening.open(entry.path, cache=cache, limits=limits)
    timeline = Timeline(trace)
    shown = facts(trace, entry.label, timeline.outline(timeline.typical_step))
    answer = {"state": "ready", "entry": shown, "config": CONFIG, "marks": MARKS}
    kept = msgspec.json.encode(answer, enc_hook=str)
    return PreparedTrace(timeline, trace.host.names, kept), trace


def _without_trace(entry: Entry, limits: Limits, cache: bool) -> PreparedTrace:
    with budget.ceiling(entry.path, limits):
        return prepared(entry, limits, cache)[0]


def read(entry: Entry, limits: Limits, cache: bool) -> tuple[PreparedTrace, Trace | None]:
    """What the viewer keeps, and the trace itself where it is small enough to keep."""
    if entry.bytes <= LARGE_BYTES:
        return prepared(entry, limits, cache)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=budget.arm) as pool:
        return pool.submit(_without_trace, entry, limits, cache).result(), None


class Library:
    """The traces of a catalog; each is opened at the first request for it."""

    def __init__(self, entries: list[Entry], limits: Limits, cache: bool) -> None:
        self.entries, self.limits, self.cache = entries, limits, cache
        self._lock = threading.Lock()
        self._readers = threading.Semaphore(MOST_READ)
        self._open: OrderedDict[int, OpenTrace] = OrderedDict()
        self._opening: dict[int, float] = {}
        self._failed: dict[int, str] = {}
        self._compared: dict[tuple[int, int], CompareDocument] = {}
        self._marks: dict[tuple[int, int, str], Ints] = {}

    def get(self, number: int) -> OpenTrace | None:
        """The trace when it is open; else None, and opening it begins."""
        with self._lock:
            if number in self._open:
                self._open.move_to_end(number)
                return self._open[number]
            if number in self._failed:
                raise UsageError(self._failed[number])
            if number not in self._opening:
                self._opening[number] = time.monotonic()
                threading.Thread(target=self._load, args=(number,), daemon=True).start()
        return None

    def progress(self, number: int) -> dict[str, str | float]:
        """The answer while a trace is being opened."""
        now = time.monotonic()
        seconds = round(now - self._opening.get(number, now), 1)
        return {"state": "opening", "seconds": seconds, "bytes": self.entries[number].bytes}

    def _load(self, number: int) -> None:
        entry = self.entries[number]
        try:
            with self._readers:
                found = read(entry, self.limits, self.cache)
            opened = OpenTrace(*found, lambda: self._again(entry))
        except Exception as problem:  # noqa: BLE001 - nothing can catch it here: the page shows it
            known = isinstance(problem, ForetraceError)
            words = str(problem) if known else f"{type(problem).__name__}: {problem}"
            with self._lock:
                self._failed[number] = words.replace(entry.path, entry.label)
                self._opening.pop(number, None)
            return
        with self._lock:
            self._open[number] = opened
            self._opening.pop(number, None)
            while len(self._open) > MOST_OPEN:
                closed, _ = self._open.popitem(last=False)
                self._marks = {key: of for key, of in self._marks.items() if closed not in key[:2]}

    def _again(self, entry: Entry) -> Trace:
        return opening.open(entry.path, cache=self.cache, limits=self.limits)

    def compared(self, a: int, b: int) -> CompareDocument | None:
        """What changed from one to the other; None while either is still being opened."""
        first, second = self.get(a), self.get(b)
        if first is None or second is None:
            return None
        if (a, b) not in self._compared:
            self._compared[a, b] = comparison(first.trace, second.trace)
        return self._compared[a, b]

    def marks(self, a: int, b: int, side: str) -> Ints | None:
        """The marks of every event of one side of a comparison."""
        document = self.compared(a, b)
        opened = self.get(a if side == "a" else b)
        if document is None or opened is None:
            return None
        if (a, b, side) not in self._marks:
            self._marks[a, b, side] = marks(document, opened.trace, side)
        return self._marks[a, b, side]
