"""The host side: ranges on threads, who called whom, and which of them are steps and regions.

Who called whom: for every host event the nearest range on its thread that contains it.

Properly nested threads, which is nearly all of them, are solved with sorting alone. A thread on
which ranges cross is walked with a stack: a crossing range keeps the nearest range that contains
all of it. A runtime call belongs to the range it starts in, even when clock drift lets it end a
little later (ROCm).

From an event, `nearest` finds the nearest event of a kind above it, and `summed` the sum over all
that it contains. A path is the chosen events above a launch, from the outermost to the innermost;
millions of launches share few. Every walk takes strides of doubled length, so that a tree of any
depth costs no more than its events times the logarithm of its depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretrace.base.arrays import Narrow, coded, distinct, filled
from foretrace.base.patterns import regex
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import KIND, KINDS, Tables
from foretrace.trace.intervals import Bools, Floats, IntervalUnion, Ints
from foretrace.work.kernel import NAME_LIMIT


def call_tree(track: Ints, start: Ints, end: Ints, is_call: Bools) -> tuple[Ints, Ints, int]:
    """(parent or -1, depth, crossings) of events that are sorted by start, the longer first."""
    count = len(start)
    parent, depth = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    if not count:
        return parent, depth, 0
    narrow = track.astype(np.int16) if int(track.max()) < 1 << 15 else track  # sorts faster
    order = np.argsort(narrow, kind="stable")
    lane, begin, finish = _one_axis(track[order], start[order], end[order])
    level = np.arange(count) - np.searchsorted(np.sort(finish), begin, side="right")
    # the latest earlier event that is one level higher, or -1
    by_level = np.argsort(level, kind="stable")
    place = level[by_level] * count + by_level  # in order: by level, then by time
    found = np.searchsorted(place, place - count) - 1
    over = by_level[np.maximum(found, 0)]
    above = np.empty(count, np.int64)
    above[by_level] = np.where((found >= 0) & (level[over] == level[by_level] - 1), over, -1)
    crossing = (above >= 0) & (finish[above] < finish) & (above != np.arange(count))
    wrong = distinct(lane[crossing])
    parent[order] = np.where(above >= 0, order[above], -1)
    depth[order] = level
    edges = np.append(np.searchsorted(lane, wrong), np.searchsorted(lane, wrong, "right"))
    crossings = 0
    for first, last in edges.reshape(2, -1).T.tolist():
        rows = order[first:last]
        crossings += _walk(rows, start[rows], end[rows], is_call[rows], parent, depth)
    return parent, depth, crossings


def _one_axis(track: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Threads laid end to end, coordinates doubled: an empty range still ends after its start."""
    lane = np.cumsum(np.concatenate(([0], track[1:] != track[:-1])))
    low = start.min()
    width = 2 * (end.max() - low) + 4
    begin = 2 * (start - low) + lane * width
    finish = 2 * (end - low) + (end == start) + lane * width
    return lane, begin, finish


def _walk(rows: Ints, start: Ints, end: Ints, is_call: Bools, parent: Ints, depth: Ints) -> int:
    """One thread with a stack; returns how many ranges cross another.

    A range hides those below it that end no later: it contains all that they still can. So the ends
    of the open ranges fall from the bottom to the top of the stack.
    """
    crossings = 0
    open_ranges: list[tuple[int, int]] = []  # end and row
    columns = (rows, 2 * start, 2 * end + (end == start), is_call)  # an empty range ends later
    for row, begin, finish, called in zip(*(each.tolist() for each in columns), strict=True):
        while open_ranges and open_ranges[-1][0] <= begin:
            open_ranges.pop()
        crossings += bool(open_ranges) and open_ranges[-1][0] < finish
        while not called and open_ranges and open_ranges[-1][0] < finish:
            open_ranges.pop()
        if open_ranges:
            parent[row] = open_ranges[-1][1]
            depth[row] = depth[parent[row]] + 1
        else:
            parent[row], depth[row] = -1, 0
        if not called:
            open_ranges.append((finish, row))
    return crossings


DEEPEST = 32  # names of a path that are told; recorded traces have at most nine
ELLIPSIS = "…"
_STEP, _SPREAD, _WORD = 0x5851F42D4C957F2D, np.uint64(0x9E3779B97F4A7C15), 1 << 64


def nearest(parent: Narrow, rows: Ints, chosen: Bools) -> Ints:
    """The innermost chosen event at or above each event, or -1."""
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(found >= 0)
    for _ in range(32):  # steps one by one: nearly all launches have their op within a few
        climbing = climbing[~chosen[found[climbing]]]
        if not len(climbing):
            return found
        found[climbing] = parent[found[climbing]]
        climbing = climbing[found[climbing] >= 0]
    over = np.append(np.where(chosen, np.arange(len(parent)), parent), -1)
    while not np.array_equal(over, over[over]):
        over = over[over]
    found[climbing] = over[found[climbing]]
    return found


def summed(parent: Narrow, values: Ints) -> Ints:
    """The sum of `values` over each event and all that it contains."""
    total, over = values.copy(), parent
    below = np.flatnonzero(over >= 0)
    while len(below):
        added = total[below]
        np.add.at(total, over[below], added)
        over = np.where(over >= 0, over[over], -1)
        below = below[over[below] >= 0]
    return total


def sums_above(parent: Narrow, values: Floats) -> Floats:
    """The sum of `values` over each event and all that contain it."""
    total, over = values.copy(), parent
    inside = np.flatnonzero(over >= 0)
    while len(inside):
        total[inside] += total[over[inside]]
        over = np.where(over >= 0, over[over], -1)
        inside = inside[over[inside] >= 0]
    return total


class Paths:
    """The paths of the chosen events of one tree; `name` is the number of each event's name."""

    def __init__(self, parent: Narrow, name: Narrow, chosen: Bools) -> None:
        self.parent, self.name, self.chosen = parent, name, chosen
        events = np.flatnonzero(chosen)
        self.above: Narrow = np.full(len(parent), -1, parent.dtype)
        self.above[events] = nearest(parent, parent[events], chosen)

    def numbers(self, rows: Ints) -> Ints:
        """A number for the path that ends at each of these events; -1 for a row of -1."""
        if not len(rows):
            return rows
        _, number = coded(self._keys[np.maximum(rows, 0)])
        return np.where(rows >= 0, number, -1)

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        """Of each event the names in its path as the coefficients of a polynomial."""
        events = np.flatnonzero(self.chosen)
        key = np.zeros(len(self.name), np.uint64)
        key[events] = (self.name[events].astype(np.uint64) + np.uint64(1)) * _SPREAD
        over, factor = self.above, _STEP
        while len(events := events[over[events] >= 0]):
            key[events] += key[over[events]] * np.uint64(factor)
            factor = factor * factor % _WORD
            over = np.where(over >= 0, over[over], -1)
        return key

    @cached_property
    def _nearest(self) -> Ints:
        """The innermost chosen event at or above every event."""
        return nearest(self.parent, np.arange(len(self.parent)), self.chosen)

    def names(self, event: int, names: list[str]) -> tuple[str, ...]:
        """Names of the chosen events at and above this one, outermost first, `…` for too many."""
        event = event if event < 0 or self.chosen[event] else int(self._nearest[event])
        found: list[str] = []
        while event >= 0 and len(found) < DEEPEST:
            found.append(names[self.name[event]])
            event = int(self.above[event])
        return (*([ELLIPSIS] * (event >= 0)), *reversed(found))


# Host calls that launch a kernel or a graph, in CUDA, HIP, SYCL and Level Zero.
LAUNCHES = regex(
    r"(?:cuda|cu|hip)\w{0,60}Launch(?!HostFunc)\w*|urEnqueueKernelLaunch\w*|zeCommandListAppendLaunch\w*"
)
_LAUNCHES_GRAPH = regex(r"(?:cuda|cu|hip)GraphLaunch\w*")
# They return only when the GPU has caught up: synchronize calls and synchronous copies.
WAITS = regex(
    r"(?:cuda|cu|hip)(?:Device|Stream|Event|Ctx|Context)Synchronize\w*"
    r"|(?:cuda|hip)Memcpy(?:2D|3D|ToSymbol|FromSymbol|WithStream|Peer|DtoH|HtoD|DtoD)?(?:_v\d+)?"
    r"|cuMemcpy(?:DtoH|HtoD|DtoD|2D|3D|Peer)?(?:_v\d+)?"
    r"|(?:urQueueFinish|urEventWait|zeEventHostSynchronize|zeCommandQueueSynchronize)"
)
COPIES = regex(
    r"(?:cuda|cu|hip)(?:Memcpy|Memset)\w*|urEnqueue(?:USM|Mem)\w*|zeCommandListAppendMemory\w*"
)
# Between the two, launches on a thread go into a graph and nothing runs.
BEGINS_CAPTURE = regex(r"(?:cuda|cu|hip)StreamBeginCapture\w*")
ENDS_CAPTURE = regex(r"(?:cuda|cu|hip)StreamEndCapture\w*")
STEP_NAME = regex(r"Profile[r]?Step\s*#\s*([0-9]{1,18})")  # 19 digits may exceed 64 bits
CALL_KINDS = ("cuda_runtime", "cuda_driver")
HOST_KINDS = ("cpu_op", "user_annotation", "python_function", *CALL_KINDS, "other")


def step_number(name: str) -> int | None:
    """The N of `ProfilerStep#N`."""
    match = STEP_NAME.fullmatch(name)
    return int(match[1]) if match else None


class Host:
    """Arrays over all events (ids are positions); host events have a parent and a depth."""

    def __init__(self, tables: Tables, ledger: LedgerBuilder, parts: Sequence[Host] = ()) -> None:
        """With `parts`, the tables are theirs in this order, and so is the tree."""
        events = tables["events"]
        self.count = events.height
        # As narrow as they come: a trace has millions of rows.
        self.kind: Narrow = events["kind_id"].to_numpy()
        self.name: Narrow = events["name_id"].to_numpy()
        self.track: Narrow = events["track"].to_numpy()
        self._pids: list[str] = tables["tracks"]["pid"].to_list()
        self.namespace: Narrow = events["namespace"].to_numpy()
        self.timed: Bools = events["ts_ns"].is_not_null().to_numpy()
        self.lasting: Bools = events["dur_ns"].is_not_null().to_numpy()
        self.start: Ints = filled(events["ts_ns"], 0)
        self.length: Ints = filled(events["dur_ns"], 0)
        self.end: Ints = self.start + self.length
        self.names: list[str] = tables["names"]["name"].to_list()
        self._join(parts) if parts else self._tree(ledger)

    def is_kind(self, *names: str) -> Bools:
        """Which events are of one of these kinds."""
        chosen = np.zeros(len(KINDS), np.bool_)
        chosen[[KIND[name] for name in names]] = True
        found: Bools = chosen[self.kind]
        return found

    def _tree(self, ledger: LedgerBuilder) -> None:
        rows = np.flatnonzero(self.is_kind(*HOST_KINDS) & self.lasting)
        parent, depth, crossings = self._nested(rows)
        self.steps_apart = False  # from the tree
        if crossings:
            # a step that begins in a hook of the model crosses the model's call, which has the ops
            others = rows[~self.is_step[rows]]
            nested = self._nested(others)
            if nested[2] < crossings:
                rows, (parent, depth, crossings) = others, nested
                self.steps_apart = True
        width = np.int32 if self.count < 1 << 31 else np.int64
        self.parent: Narrow = np.full(self.count, -1, width)
        self.depth: Narrow = np.zeros(self.count, np.int32)
        self.parent[rows] = np.where(parent >= 0, rows[parent], -1)
        self.depth[rows] = depth
        ledger.note("cpu_crossing", crossings)

    def _nested(self, rows: Ints) -> tuple[Ints, Ints, int]:
        calls = self.is_kind(*CALL_KINDS)[rows]
        return call_tree(self.track[rows], self.start[rows], self.end[rows], calls)

    def _join(self, parts: Sequence[Host]) -> None:
        first = np.cumsum([0, *(part.count for part in parts)]).tolist()
        parents = [part.parent.astype(np.int64) for part in parts]
        pairs = zip(parents, first, strict=False)
        self.parent = np.concatenate([np.where(at >= 0, at + offset, -1) for at, offset in pairs])
        self.depth = np.concatenate([part.depth for part in parts])
        self.steps_apart = any(part.steps_apart for part in parts)

    def named(self, test: Callable[[str], object], among: Bools | None = None) -> Bools:
        """Which events (`among` these) have a name that passes `test`, tested once per name."""
        names = range(len(self.names)) if among is None else distinct(self.name[among]).tolist()
        hits = [name for name in names if test(self.names[name][:NAME_LIMIT])]
        if not hits:
            return np.zeros(len(self.name), np.bool_)
        passed = np.zeros(len(self.names), np.bool_)
        passed[hits] = True
        found: Bools = passed[self.name]
        return found if among is None else found & among

    @cached_property
    def process(self) -> Narrow:
        """A number for each process; that of a GPU event is its device's."""
        number = {pid: at for at, pid in enumerate(sorted(set(self._pids)))}
        return np.array([number[pid] for pid in self._pids], np.int32)[self.track]

    @cached_property
    def is_call(self) -> Bools:
        """Calls of the CUDA runtime or driver, or its like."""
        return self.is_kind(*CALL_KINDS)

    @cached_property
    def is_launch(self) -> Bools:
        """Calls that launch a kernel or a graph."""
        return self.named(LAUNCHES.fullmatch, self.is_call)

    @cached_property
    def is_graph_launch(self) -> Bools:
        """Calls that launch a whole graph."""
        return self.named(_LAUNCHES_GRAPH.fullmatch, self.is_call)

    @cached_property
    def is_wait(self) -> Bools:
        """Calls that wait for the GPU."""
        return self.named(WAITS.fullmatch, self.is_call)

    @cached_property
    def captures(self) -> IntervalUnion:
        """When a CUDA graph was being captured: what is launched then runs nothing."""
        begins = np.flatnonzero(self.named(BEGINS_CAPTURE.fullmatch, self.is_call) & self.lasting)
        ends = np.flatnonzero(self.named(ENDS_CAPTURE.fullmatch, self.is_call) & self.lasting)
        start, end = self.start[begins], self.end[begins]
        place = np.sort(self._place(ends))  # the next on the same thread ends it
        after = np.searchsorted(place, self._place(begins), "right")
        closed = np.append(place, -1)[after]
        ended = (closed >= 0) & (closed // self.count == self.track[begins])
        end[ended] = self.end[closed[ended] % self.count]
        return IntervalUnion(start, end)

    def _place(self, events: Ints) -> Ints:
        """Numbers that sort events by thread, then by time."""
        return self.track[events].astype(np.int64) * self.count + events

    @cached_property
    def is_step(self) -> Bools:
        """`ProfilerStep#N` ranges."""
        ranges = self.is_kind("user_annotation", "cpu_op") & self.lasting
        return self.named(STEP_NAME.fullmatch, ranges)

    @cached_property
    def is_region(self) -> Bools:
        """`record_function` ranges other than steps."""
        return self.is_kind("user_annotation") & self.lasting & ~self.is_step

    @cached_property
    def is_op(self) -> Bools:
        """Calls of host ops."""
        return self.is_kind("cpu_op") & ~self.is_step

    @cached_property
    def self_length(self) -> Ints:
        """Time in an event that none of its children accounts for."""
        held = np.flatnonzero(self.parent >= 0)
        inside = np.minimum(self.end[held], self.end[self.parent[held]]) - self.start[held]
        spent = np.bincount(self.parent[held], weights=inside, minlength=self.count)
        own = spent.astype(np.int64)
        del spent, held, inside  # a long trace has no room for one more copy
        return np.maximum(np.subtract(self.length, own, out=own), 0, out=own)

    def nearest(self, rows: Ints, chosen: Bools) -> Ints:
        """The innermost chosen event at or above each event, or -1."""
        return nearest(self.parent, rows, chosen)

    def nearest_op(self, rows: Ints) -> Ints:
        """The innermost op at or above each event, or -1."""
        return self.nearest(rows, self.is_op)

    def paths(self, chosen: Bools) -> Paths:
        """The paths of the chosen events."""
        return Paths(self.parent, self.name, chosen)

    @cached_property
    def op_paths(self) -> Paths:
        """The paths of ops."""
        return self.paths(self.is_op)

    def op_chain(self, op: int) -> tuple[str, ...]:
        """Names of the ops around `op`, outermost first."""
        return self.op_paths.names(op, self.names)
