"""The traces of a folder: which there are, how each is read, and those that are open.

A request names a trace by its number in the catalog, never by a path. Reading a trace takes several
times the memory of viewing it, so a large file is read in a process of its own. Traces are opened
in threads, and the page shows progress.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cached_property, partial
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from foretrace.base import budget
from foretrace.base.arrays import distinct
from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, LimitError, UsageError, report, show_with
from foretrace.base.terminal import plain
from foretrace.look.steering import Steering
from foretrace.pages.changes import MARKS, Compared, compared
from foretrace.pages.page import Packed, pack, seen
from foretrace.pages.timeline import Bands, Timeline, edges
from foretrace.pages.trace_facts import facts
from foretrace.read.door import Opened, TraceFile, TraceFolder, nothing_in, open_any
from foretrace.read.tables import KINDS, WORK_KINDS
from foretrace.trace import opening
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace

# read whole before it is served, in a few milliseconds; of a larger file the first bytes must do
QUICK_BYTES = 1 << 20


class Entry(Struct, frozen=True):
    """One trace that may be opened; `label` is its path inside the folder."""

    number: int
    label: str
    path: str
    bytes: int


class Catalog(Struct, frozen=True):
    """`left_out` are files named like traces that cannot be read: (label, why). `snapshots` are
    those of torch's allocator, numbered apart.
    """

    entries: list[Entry]
    left_out: list[tuple[str, str]]
    snapshots: list[Entry]


def catalog(path: str | Opened, limits: Limits) -> Catalog:
    """The traces of a folder or zip, or the one trace; links out of it are not followed."""
    found = open_any(path, limits)
    root, folder = found.path, found if isinstance(found, TraceFolder) else None
    files = folder.files if folder else [(root, None)]
    if (
        isinstance(found, TraceFile)
        and root != "-"
        and (_bytes(root) <= QUICK_BYTES or found.doubt)
    ):
        # says in one line why it is not a trace, before anything is served
        opening.open_file(root, limits, cache=False)
    pickles = [each for each in folder.snapshots if _inside(each, root)] if folder else []
    inside = [each for each in files if _inside(each[0], root) and each[0] not in pickles]
    paths = [path for path, problem in inside if problem is None]
    if not paths and not pickles:
        raise nothing_in(root, [])
    left_out = [
        (_label(path, root), plain(f"{problem.message} [{problem.code}]"))
        for path, problem in inside
        if problem
    ]
    return Catalog(_entries(paths, root), left_out, _entries(pickles, root))


def _entries(paths: list[str], root: str) -> list[Entry]:
    return [Entry(at, _label(path, root), path, _bytes(path)) for at, path in enumerate(paths)]


def _inside(path: str, root: str) -> bool:
    file, home = os.path.realpath(path.partition("::")[0]), os.path.realpath(root)
    return file == home or file.startswith(home + os.sep)


def _label(path: str, root: str) -> str:
    return plain(os.path.relpath(path, root) if os.path.isdir(root) else os.path.basename(path))


def _bytes(path: str) -> int:
    file = path.partition("::")[0]
    return os.stat(file).st_size if os.path.exists(file) else 0


# a few hundred thousand events, compressed or not: about half a second of reading
LARGE_BYTES = 32 << 20
EVERY_S = 0.2  # often enough to be seen to move
Say = Callable[[str], None]


def prepared(
    entry: Entry, limits: Limits, cache: bool, steering: Steering | None = None
) -> tuple[PreparedTrace, Trace]:
    """What the viewer keeps of a trace, and the trace."""
    trace = opening.open_file(entry.path, limits, cache)
    report("laying out the timeline")
    timeline = Timeline(trace)
    report("applying the rules")
    outline = timeline.outline(timeline.typical_step)
    shown = facts(trace, entry.label, outline, steering)
    answer = {"state": "ready", "entry": shown, "marks": MARKS}
    kept = seen(msgspec.json.encode(answer, enc_hook=str).decode()).encode()
    shorts = {row.name: row.short for row in shown.decoded}
    calls = timeline.rows_of(np.flatnonzero(trace.host.is_launch & trace.host.timed))
    return PreparedTrace(timeline, trace.host.names, shorts, calls, kept), trace


def _without_trace(
    entry: Entry, limits: Limits, cache: bool, steering: Steering | None
) -> PreparedTrace:
    with budget.ceiling(entry.path, limits):
        return prepared(entry, limits, cache, steering)[0]


def read(
    entry: Entry, limits: Limits, cache: bool, say: Say, steering: Steering | None = None
) -> tuple[PreparedTrace, Trace | None]:
    """What the viewer keeps, and the trace itself where it is small enough to keep."""
    if entry.bytes <= LARGE_BYTES:
        return prepared(entry, limits, cache, steering)
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    with receiver, ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(sender,)) as pool:
        reading = pool.submit(_without_trace, entry, limits, cache, steering)
        try:
            with suppress(EOFError, OSError):  # the process has ended: its result says how
                while not reading.done():
                    if receiver.poll(EVERY_S):
                        say(receiver.recv())
            return reading.result(), None
        except BrokenProcessPool:
            what = "the process that read it was ended, perhaps for want of memory"
            raise LimitError("E_TOO_MUCH_MEMORY", entry.path, what) from None
        finally:
            sender.close()


def _begin(sender: Connection) -> None:
    """In the process that reads: its ceilings, and reports of what takes time."""
    budget.arm()
    due = 0.0

    def send(text: str) -> None:
        nonlocal due
        if text and time.monotonic() >= due:
            due = time.monotonic() + EVERY_S
            with suppress(OSError):
                sender.send(text)

    show_with(send)


MOST_OPEN = 4  # the least recently used is closed for the next
MOST_READ = 2  # at once; reading takes all cores and much memory


class Together(Struct, frozen=True):
    """What changed between several traces, and the mark of every event of each."""

    compared: Compared
    marks: list[Ints]


class Library:
    """The traces of a catalog; each is opened at the first request for it."""

    def __init__(
        self,
        entries: list[Entry],
        limits: Limits,
        cache: bool,
        steering: Steering | None = None,
    ) -> None:
        self.entries, self.limits, self.cache = entries, limits, cache
        self.steering = steering
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
                found = read(entry, self.limits, self.cache, say, self.steering)
            opened = OpenTrace(*found, self._again(entry))
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

    def _again(self, entry: Entry) -> Callable[[], Trace]:
        return partial(opening.open_file, entry.path, self.limits, self.cache)

    def together(self, numbers: tuple[int, ...]) -> Together | None:
        """What changed between these traces; None while one of them is still being opened."""
        if len(numbers) > MOST_OPEN:
            raise UsageError(f"the viewer compares at most {MOST_OPEN} traces")
        opened = [self.get(number) for number in numbers]
        if any(each is None for each in opened):
            return None
        with self._comparing:
            if numbers not in self._together:
                held = [each for each in opened if each is not None]
                traces = [each.trace for each in held]
                found, marked = compared([each.timeline for each in held], traces)
                marks: list[Any] = [each.astype(np.int8) for each in marked]
                self._together[numbers] = Together(found, marks)
        return self._together[numbers]


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
        self.tiles, columns = Tiles(self.timeline), self.timeline.columns
        # the row of each event, or -1; the last entry is for events that are not drawn
        self._rows = np.full(int(self.timeline.event.max(initial=0)) + 2, -1, np.int32)
        self._rows[self.timeline.event] = np.arange(len(self.timeline))
        work = np.flatnonzero(columns["launch"] >= 0)
        launch = self._rows[np.minimum(columns["launch"][work], len(self._rows) - 1)]
        # rows of GPU work whose launch is drawn, and the rows of those launches
        self.launches = work[launch >= 0], launch[launch >= 0].astype(np.int64)
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
        timeline, launches = self.timeline, self.launches[1]
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

    def related(self, event: int) -> Ints:
        """The rows of an event, its callers, what it launched, what launched it, its neighbours."""
        if (own := self._row_of(event)) < 0:
            return np.empty(0, np.int64)
        timeline, columns, (work, launch) = self.timeline, self.timeline.columns, self.launches
        found, beside = self._chain(own), range(max(own - 1, 0), min(own + 2, len(self.timeline)))
        for near in beside:
            if (timeline.lane[near], timeline.row[near]) == (timeline.lane[own], timeline.row[own]):
                found.append(near)
        inside = np.flatnonzero(columns["parent"] == event)
        found += [int(inside[np.argmin(timeline.start[inside])])] if len(inside) else []
        # GPU operations that it launched, or what it called on its thread
        begins, end = timeline.start[launch], timeline.start[own] + timeline.length[own]
        below = (begins >= timeline.start[own]) & (begins + timeline.length[launch] <= end)
        below &= timeline.lane[launch] == timeline.lane[own]
        below &= timeline.row[launch] >= timeline.row[own]
        for row in [own, *work[np.flatnonzero(below)[:MOST_RELATED]].tolist()]:
            at = self._row_of(int(columns["launch"][row]))
            found += [row, *(self._chain(at) if at >= 0 else [])]
        return distinct(np.array(found, np.int64))

    def _row_of(self, event: int) -> int:
        return int(self._rows[event]) if 0 <= event < len(self._rows) else -1

    def _chain(self, row: int) -> list[int]:
        found, parent = [row], self.timeline.columns["parent"]
        while (up := self._row_of(int(parent[found[-1]]))) >= 0:
            found.append(up)
        return found


WORK = tuple(KINDS.index(kind) for kind in WORK_KINDS)
FINEST_NS, FACTOR = 1000, 4
ENOUGH = 20_000  # a level this small needs no coarser one


class PackedBands(Struct, frozen=True):
    """Busy time of pixels, without those that are idle.

    `runs` are neighbouring pixels of one group: `track` and `row` (of a strip: the number of the
    GPU, and 0), `group`, the `first` pixel, their `count`, and whether they are `full`, busy from
    edge to edge. `busy` holds the ns of each pixel of the runs that are not.
    """

    runs: Packed
    busy: Packed


class PackedTile(Struct, omit_defaults=True):
    """What is drawn of some lanes; `marks` say what a comparison found of each box."""

    bands: PackedBands
    strips: PackedBands
    boxes: Packed
    marks: Packed | None = None


class _Level(Struct, frozen=True):
    """Events at least `pixel_ns` long: their rows in the timeline."""

    pixel_ns: int
    rows: Ints


class Tiles:
    """Answers for one timeline; a `stretch` is one row of one lane."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        starts = np.ones(len(timeline), bool)
        starts[1:] = (np.diff(timeline.lane) != 0) | (np.diff(timeline.row) != 0)
        first = np.flatnonzero(starts)
        self.lane, self.row = timeline.lane[first].tolist(), timeline.row[first].tolist()
        self._bounds = np.append(first, len(timeline))
        stretches = pairwise(self._bounds.tolist())
        self._bands = [timeline.bands(np.arange(low, high)) for low, high in stretches]
        work = np.flatnonzero(np.isin(timeline.columns["kind"], WORK))
        numbers = [-1 if lane.gpu_number is None else lane.gpu_number for lane in timeline.lanes]
        gpu = np.array(numbers, np.int64)[timeline.lane[work]]
        of_gpus = distinct(gpu[gpu >= 0]).tolist()  # the work of each, whatever the stream
        self._strips = {number: timeline.bands(work[gpu == number]) for number in of_gpus}
        self._reach = timeline.start + timeline.length  # of a stretch, the last end so far
        for low, high in pairwise(self._bounds.tolist()):
            np.maximum.accumulate(self._reach[low:high], out=self._reach[low:high])
        self.levels = [_Level(0, np.arange(len(timeline), dtype=np.int32))]
        while len(self.levels[-1].rows) > ENOUGH and self.levels[-1].pixel_ns < timeline.end_ns:
            pixel = max(self.levels[-1].pixel_ns * FACTOR, FINEST_NS)
            rows = self.levels[-1].rows
            self.levels.append(_Level(pixel, rows[timeline.length[rows] >= pixel]))

    def boxes(self, start: int, end: int, width: int, lanes: Collection[int] | None = None) -> Ints:
        """Rows of the timeline that are at least one of `width` pixels wide."""
        pixel = max((end - start) / width, 1)
        level = next(level for level in reversed(self.levels) if level.pixel_ns <= pixel)
        near = []
        for at in self._of(lanes):  # what overlaps [start, end), and perhaps some rows between
            low, high = int(self._bounds[at]), int(self._bounds[at + 1])
            first = np.searchsorted(self._reach[low:high], start, side="right")
            near.append((low + first, low + np.searchsorted(self.timeline.start[low:high], end)))
        bounds = np.searchsorted(level.rows, np.array(near, np.int32).reshape(-1, 2)).tolist()
        rows = np.concatenate([level.rows[low:high] for low, high in bounds] or [level.rows[:0]])
        wide: Ints = rows[self.timeline.length[rows] >= pixel]
        return wide

    def bands(
        self, start: int, end: int, width: int, lanes: Collection[int] | None = None
    ) -> PackedBands:
        """Every event of these lanes, as busy time of pixels."""
        named = {(self.lane[at], self.row[at]): self._bands[at] for at in self._of(lanes)}
        return packed_bands(named, edges(start, end, width))

    def strips(self, start: int, end: int, width: int) -> PackedBands:
        """How busy each GPU is, whatever the stream."""
        named = {(gpu, 0): bands for gpu, bands in self._strips.items()}
        return packed_bands(named, edges(start, end, width))

    def _of(self, lanes: Collection[int] | None) -> list[int]:
        return [at for at, lane in enumerate(self.lane) if lanes is None or lane in lanes]


def packed_bands(named: Mapping[tuple[int, int], Bands], at: Ints) -> PackedBands:
    """The bands of each (track, row), as busy time of the pixels between these moments."""
    rows = [
        ((*key, group), busy)
        for key, bands in named.items()
        for group, busy in bands.pixels(at).items()
    ]
    full, width = np.diff(at), len(at) - 1
    keys = np.array([key for key, _ in rows], np.int64).reshape(-1, 3)
    pixels = np.concatenate([busy for _, busy in rows] or [np.empty(0, np.int64)])
    # 0 for idle pixels, 1 for those in part busy, 2 for full ones
    state = np.sign(pixels) + (pixels == np.tile(full, len(rows))) * np.sign(pixels)
    begins = np.ones(len(pixels), bool)
    begins[1:] = np.diff(state) != 0
    begins[::width] = True
    first = np.flatnonzero(begins)
    count = np.diff(np.append(first, len(pixels)))
    first, count = first[state[first] > 0], count[state[first] > 0]
    columns = dict(zip(("track", "row", "group"), keys[first // width].T, strict=True))
    columns |= {"first": first % width, "count": count, "full": state[first] - 1}
    return PackedBands(pack(columns), pack({"ns": pixels[state == 1]}))
