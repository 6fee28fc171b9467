"""Traces that are open, and those being opened: reading happens in a thread, so that the page can say how far it is."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ForetraceError, UsageError
from ..model.intervals import Ints
from ..model.trace import Trace
from ..opening import open
from ..render.html.changes import MARKS, comparison, marks
from ..render.html.report import outline
from ..render.html.story import story
from ..render.html.tables import CONFIG, about
from ..render.html.timeline import Timeline
from ..sources.limits import Limits
from .catalog import Entry
from .tiles import Tiles

MOST_OPEN = 4  # the least recently used is closed for the next
MOST_RELATED, MOST_FOUND = 300, 5000


class Opened:
    """One trace, ready to be looked at."""

    def __init__(self, trace: Trace, label: str) -> None:
        self.trace, self.label = trace, label
        self.timeline = Timeline(trace)
        self.tiles = Tiles(self.timeline)

    @cached_property
    def facts(self) -> bytes:
        """Everything about the trace but its events, as JSON."""
        known = about(self.trace)
        timeline = outline(self.timeline, self.timeline.typical_step) | {"left_out": 0}
        entry = known | {"title": self.label, "story": story(known["look"], known["kernels"]), "timeline": timeline}
        return json.dumps({"state": "ready", "entry": entry, "config": CONFIG, "marks": MARKS}, default=str).encode()

    def tile(self, start: int, end: int, width: int) -> dict[str, Any]:
        return self.timeline.packed(self.tiles.rows(start, end, width))

    def related(self, event: int) -> Ints:
        """An event, what is around it, and what it launched or who launched it."""
        host, gpu = self.trace.host, self.trace.gpu
        if not 0 <= event < host.count:
            raise UsageError(f"there is no event {event}")
        place = int(np.searchsorted(gpu.id, event))
        launch = int(gpu.launch[place]) if place < len(gpu) and gpu.id[place] == event else -1
        found = [event, *self._above(event), *([launch, *self._above(launch)] if launch >= 0 else [])]
        work = self._launched_by(event)
        for each in work:
            found += [int(gpu.id[each]), int(gpu.launch[each]), *self._above(int(gpu.launch[each]))]
        return np.unique(np.array(found, np.int64))

    def _above(self, event: int) -> list[int]:
        found, up = [], int(self.trace.host.parent[event])
        while up >= 0:
            found.append(up)
            up = int(self.trace.host.parent[up])
        return found

    def _launched_by(self, event: int) -> list[int]:
        """GPU work launched inside a host event, by it or by what it called."""
        host, gpu = self.trace.host, self.trace.gpu
        at = np.maximum(gpu.launch, 0)
        inside = (gpu.launch >= 0) & (host.start[at] >= host.start[event]) & (host.end[at] <= host.end[event])
        near = np.flatnonzero(inside & (host.track[at] == host.track[event]))[:MOST_RELATED]
        return [int(row) for row in near if event == gpu.launch[row] or event in self._above(int(gpu.launch[row]))]

    def found(self, text: str) -> dict[str, Any]:
        """Events whose name contains a text, in order of time: how many, and the first of them."""
        wanted = text.lower()
        names = np.array([wanted in name.lower() for name in self.trace.host.names], bool)
        rows = np.flatnonzero(names[self.trace.host.name[self.timeline.event]]) if wanted else np.empty(0, np.int64)
        first = rows[np.argsort(self.timeline.start[rows], kind="stable")[:MOST_FOUND]]
        return {"count": len(rows), "events": self.timeline.packed(first)}


class Shelf:
    """The traces of a catalog: each opened when it is first asked for."""

    def __init__(self, entries: list[Entry], limits: Limits, cache: bool) -> None:
        self.entries, self.limits, self.cache = entries, limits, cache
        self._lock = threading.Lock()
        self._open: OrderedDict[int, Opened] = OrderedDict()
        self._opening: dict[int, float] = {}
        self._failed: dict[int, str] = {}
        self._compared: dict[tuple[int, int], dict[str, Any]] = {}
        self._marks: dict[tuple[int, int, str], Ints] = {}

    def get(self, number: int) -> Opened | None:
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

    def progress(self, number: int) -> dict[str, Any]:
        """What to tell while a trace is being opened."""
        entry = self.entries[number]
        return {"state": "opening", "seconds": round(time.monotonic() - self._opening.get(number, time.monotonic()), 1),
                "bytes": entry.bytes}

    def _load(self, number: int) -> None:
        entry = self.entries[number]
        try:
            opened = Opened(open(entry.path, cache=self.cache, limits=self.limits), entry.label)
            _ = opened.facts
        except Exception as problem:  # a thread has nobody to raise to: the page is told instead
            words = str(problem) if isinstance(problem, ForetraceError) else f"{type(problem).__name__}: {problem}"
            with self._lock:
                self._failed[number] = words.replace(entry.path, entry.label)
                self._opening.pop(number, None)
            return
        with self._lock:
            self._open[number] = opened
            self._opening.pop(number, None)
            while len(self._open) > MOST_OPEN:
                closed, _ = self._open.popitem(last=False)
                self._marks = {key: value for key, value in self._marks.items() if closed not in key[:2]}

    def compared(self, a: int, b: int) -> dict[str, Any] | None:
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
