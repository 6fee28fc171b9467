"""Traces that are open or being opened, in a thread, so that the page can show progress."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

import numpy as np
from msgspec import Struct

from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, UsageError
from foretrace.model import opening
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.show.html.changes import Compared, all_marks, compared
from foretrace.show.serve.catalog import Entry
from foretrace.show.serve.opened import OpenTrace
from foretrace.show.serve.preparing import read

MOST_OPEN = 4  # the least recently used is closed for the next
MOST_READ = 2  # at once; reading takes all cores and much memory


class Together(Struct, frozen=True):
    """What changed between several traces, and the mark of every event of each."""

    compared: Compared
    marks: list[Ints]


class Library:
    """The traces of a catalog; each is opened at the first request for it."""

    def __init__(self, entries: list[Entry], limits: Limits, cache: bool) -> None:
        self.entries, self.limits, self.cache = entries, limits, cache
        self._lock = threading.Lock()
        self._readers = threading.Semaphore(MOST_READ)
        self._open: OrderedDict[int, OpenTrace] = OrderedDict()
        self._opening: dict[int, float] = {}
        self._doing: dict[int, str] = {}
        self._failed: dict[int, str] = {}
        self._comparing = threading.Lock()
        self._together: dict[tuple[int, ...], Together] = {}

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
        seconds, doing = round(now - self._opening.get(number, now), 1), self._doing.get(number, "")
        size = self.entries[number].bytes
        return {"state": "opening", "seconds": seconds, "bytes": size, "doing": doing}

    def _load(self, number: int) -> None:
        entry = self.entries[number]

        def say(text: str) -> None:
            self._doing[number] = text.partition(": ")[0]  # without the path of a file

        try:
            with self._readers:
                found = read(entry, self.limits, self.cache, say)
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
                held = self._together.items()
                self._together = {key: found for key, found in held if closed not in key}

    def _again(self, entry: Entry) -> Trace:
        return opening.open(entry.path, cache=self.cache, limits=self.limits)

    def together(self, numbers: tuple[int, ...]) -> Together | None:
        """What changed between these traces; None while one of them is still being opened."""
        if len(numbers) > MOST_OPEN:
            raise UsageError(f"the viewer compares at most {MOST_OPEN} traces")
        opened = [self.get(number) for number in numbers]
        if any(each is None for each in opened):
            return None
        with self._comparing:
            if numbers not in self._together:
                self._together[numbers] = _compare([each for each in opened if each is not None])
        return self._together[numbers]


def _compare(opened: list[OpenTrace]) -> Together:
    traces = [each.trace for each in opened]
    found = compared([each.timeline for each in opened], traces)
    return Together(found, [each.astype(np.int8) for each in all_marks(found, traces)])
