"""Where every event of a trace is drawn: its lane (a thread or a stream), row, start and end.

A stream is a lane; so is a thread, and its Python frames are one below it, which a page can hide.
Host events lie on the row of their depth, GPU work on the first row that is free: kernels of one
stream can overlap. Events are ordered by lane, row and start: a row is one slice of every column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.terminal import plain
from foretrace.base.units import bytes_text
from foretrace.pages.page import Packed, pack
from foretrace.read.tables import KIND, KINDS, WORK_KINDS
from foretrace.trace.arguments import json_text
from foretrace.trace.bounds import measured_spans, shortened
from foretrace.trace.flame import is_library_frame
from foretrace.trace.host import CALL_KINDS, COPIES, HOST_KINDS, LAUNCHES, WAITS, Host
from foretrace.trace.intervals import IntervalUnion, Ints, split_by, union_length
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace

GPU_KINDS = ("gpu_user_annotation", *WORK_KINDS)


class Lane(Struct, frozen=True):
    """A stream, a thread or its Python frames; `rows` high.

    `key` names it in an address. `launches` counts the GPU operations that a thread launched,
    `busy_ns` is the time in which at least one event runs, `gpu_number` a `Gpu.device_number`.
    """

    label: str
    gpu: bool
    rows: int
    kind: str = "stream"  # stream, thread or python
    key: str = ""
    launches: int = 0
    busy_ns: int = 0
    gpu_number: int | None = None


class Tracks:
    """Which track each event is drawn on; frames of Python have their own, PyTorch's another."""

    def __init__(self, trace: Trace, shown: Ints) -> None:
        host = trace.host
        self.trace = trace
        self.count = len(trace.tracks)
        self.of: Ints = host.track[shown] + self.count * frame_sorts(host)[shown]
        self.gpus = set(distinct(host.track[shown][host.is_kind(*GPU_KINDS)[shown]]).tolist())
        # a device by the name of its process: merged traces have several GPUs 0
        work = host.track[trace.gpu.id]
        found = zip(work.tolist(), trace.gpu.device_number.tolist(), strict=True)
        self.numbers = {
            plain(str(trace.tracks["pid"][track])): number for track, number in dict(found).items()
        }
        self.stepping = set(distinct(host.track[host.is_step]).tolist())
        linked = trace.gpu.launch[trace.gpu.launch >= 0]
        self.launches = np.bincount(host.track[linked], minlength=self.count)
        parts = split_by(self.of, np.arange(len(shown)))
        self.places = {int(self.of[part[0]]): part for part in parts}
        self.busy = {
            track: union_length(host.start[shown[part]], host.end[shown[part]])
            for track, part in self.places.items()
        }

    def ordered(self) -> list[int]:
        """GPUs first, then the thread that has the steps, then threads by what they launched."""

        def number(text: str) -> int:
            return int(text) if text.isdigit() and len(text) < 16 else 1 << 60

        def place(track: int) -> tuple[object, ...]:
            base, sort = track % self.count, track // self.count
            if base in self.gpus:
                row = self.trace.tracks.row(base, named=True)
                return (0, number(str(row["pid"])), number(str(row["tid"])), sort)
            ops, launches = self.busy.get(base, 0), int(self.launches[base])
            return (1, launches == 0, base not in self.stepping, -launches, -ops, base, sort)

        return sorted(self.busy, key=place)

    def lane(self, track: int, rows: int) -> Lane:
        """What a page knows of a lane."""
        base = track % self.count
        found = self.trace.tracks.row(base, named=True)
        pid, tid = plain(str(found["pid"])), plain(str(found["tid"]))
        busy = self.busy[track]
        if base in self.gpus:
            label, key = f"GPU {pid} · stream {tid}", f"gpu{pid}/stream{tid}"
            return Lane(label, True, rows, "stream", key, 0, busy, self.numbers.get(pid))
        label, key = plain(str(found["thread"] or f"thread {tid}")), f"{pid}/{tid}"
        if track >= self.count:
            key = f"{key}/{FRAMES[track // self.count]}"
            return Lane(label, False, rows, "python", key, 0, busy)
        return Lane(label, False, rows, "thread", key, int(self.launches[base]), busy)


FRAMES = ("", "python", "torch")  # sorts of events: no frame, the program's, PyTorch's own


def frame_sorts(host: Host) -> Ints:
    """The place in `FRAMES` of every event."""
    own = host.named(is_library_frame)
    return np.where(host.is_kind("python_function"), np.where(own, 2, 1), 0)


def depths(host: Host, shown: Ints) -> Ints:
    """The depth of each event among its own: frames of Python, PyTorch's frames, all others."""
    sorts = frame_sorts(host)
    above = np.zeros((len(FRAMES), host.count), np.int32)  # how many of each are around an event
    inside = np.flatnonzero(host.depth > 0)
    for level in split_by(host.depth[inside], inside):  # the outer ones first
        parent = host.parent[level]
        above[:, level] = above[:, parent]
        above[sorts[parent], level] += 1
    if host.steps_apart:  # a step is drawn around what it has by time
        stepping = np.isin(host.track, host.track[host.is_step])
        above[0, stepping & ~host.is_step] += 1
    found: Ints = above[sorts[shown], shown].astype(np.int64)
    return found


OTHER_KINDS = ("overhead", "cuda_sync")
MOST_ROWS = 8  # of GPU work that overlaps on one stream; what is beyond shares the last
# what a page shows of a launch, in this order
_CONFIG: tuple[str, ...] = ("grid", "block", "registers", "shared_memory")
_CONFIG += ("blocks_per_sm", "warps_per_sm", "occupancy", "graph_id", "bytes")
_DIFFERENCES = frozenset({"event", "start", "parent", "launch"})


class StepExtent(Struct, frozen=True):
    """The host range of a step, and where its last GPU work ends; ns from the first event."""

    name: str
    start: int
    end: int
    last: int


class Outline(Struct, omit_defaults=True):
    """A timeline as a page reads it: lanes, steps, the step to open at, and launch configurations.

    `groups` are what colours tell apart: the roles of kernels, copies, and kinds of host events.
    `origin_ns` is the first event on the clock of the trace. A report adds its events, how many it
    has no room for, and the mark that a comparison gives each; a server sends events when they come
    into view.
    """

    lanes: list[Lane]
    end: int
    steps: list[StepExtent]
    step: int | None
    configs: list[str]
    groups: list[str]
    events: Packed | None = None
    left_out: int | None = None
    marks: Packed | None = None
    origin_ns: int = 0


class Timeline:
    """Columns with a row per event that lasts; plain data that outlives its trace.

    `event` is the id in the trace, `start` counts from `origin_ns`, `parent` and `launch` are
    events, `name` and `kind` numbers into the lists of the host, `shape`, `config` and `case`
    numbers of shapes, launch configurations and kernel cases, `module` the name of the nn.Module
    that GPU work belongs to; -1 where there is none.
    """

    def __init__(self, trace: Trace) -> None:
        host = trace.host
        shown = np.flatnonzero(host.lasting & host.is_kind(*HOST_KINDS, *GPU_KINDS, *OTHER_KINDS))
        self.origin_ns = int(host.start[shown].min()) if len(shown) else 0
        tracks, depth = Tracks(trace, shown), depths(host, shown)
        order = tracks.ordered()
        layers = np.full(len(KINDS), -1, np.int64)  # of every kind of event, from the top of a lane
        for number, kinds in enumerate((HOST_KINDS, GPU_KINDS[:1], WORK_KINDS, OTHER_KINDS)):
            layers[[KIND[kind] for kind in kinds]] = number
        layer = layers[host.kind[shown]]
        places = [tracks.places[track] for track in order]
        parts = [
            (shown[mine], _rows(host, shown[mine], depth[mine], layer[mine])) for mine in places
        ]
        self.lanes = [
            tracks.lane(track, int(rows.max()) + 1)
            for track, (_, rows) in zip(order, parts, strict=True)
        ]
        none = (np.empty(0, np.int64),) * 2  # of a recording without events
        event, row = (np.concatenate(each) for each in zip(none, *parts, strict=True))
        lane = np.repeat(np.arange(len(parts)), [len(events) for events, _ in parts])
        by_row = np.lexsort((host.start[event], row, lane))
        event, lane, row = event[by_row], lane[by_row], row[by_row]
        self.configs, config = _configs(trace)
        gpu, shapes = trace.gpu, trace.tables["shapes"]
        work, shaped = _positions(gpu.id, event), _positions(shapes["event"].to_numpy(), event)
        self.columns: dict[str, Ints] = {
            "event": event,
            "start": host.start[event] - self.origin_ns,
            "length": host.length[event],
            "lane": lane,
            "row": row,
            "name": host.name[event],
            "kind": host.kind[event],
            "parent": host.parent[event],
            "launch": _values_at(gpu.launch, work),
            "shape": _values_at(shapes["signature"].to_numpy(), shaped),
            "config": _values_at(config, _values_at(gpu.side_row, work)),
            "case": _values_at(trace.order.case_of_work, work),
            "module": _values_at(_modules(trace), work),
        }
        # all of these fit, and there are millions of them
        for name in self.columns.keys() - {"start", "length"}:
            self.columns[name] = self.columns[name].astype(np.int32)
        self.event, self.lane, self.row = (self.columns[name] for name in ("event", "lane", "row"))
        self.start, self.length = self.columns["start"], self.columns["length"]
        self.groups, self.group = _groups(trace, self.columns)
        self.end_ns = int((self.start + self.length).max(initial=0))
        steps = [self.extent(trace, span) for span in trace.spans.steps]
        self.steps = steps or self._batches(trace)
        times = [step.end - step.start for step in self.steps]
        by_time = sorted(range(len(times)), key=lambda at: times[at])
        # The step of median host time: the first ones often pay for something else.
        self.typical_step = by_time[len(times) // 2] if times else None

    def __len__(self) -> int:
        return len(self.event)

    def extent(self, trace: Trace, span: Span) -> StepExtent:
        """A step: its host range, and how far its GPU work reaches."""
        shown = trace.gpu.usable[span.work] & trace.gpu.aligned
        work, origin = span.work[shown], self.origin_ns
        last = max(span.end_ns, int(trace.gpu.end[work].max(initial=span.end_ns)))
        return StepExtent(span.name, span.start_ns - origin, span.end_ns - origin, last - origin)

    def _batches(self, trace: Trace) -> list[StepExtent]:
        """Without steps: the batches of a serving engine that the verdict is about."""
        per, spans = measured_spans(trace)
        found = []
        for span in spans if per.endswith(" batch") else ():
            start, end = (at - self.origin_ns for at in trace.spans.window(span))
            found.append(StepExtent(shortened(plain(span.name)), start, end, end))
        return found

    def outline(self, step: int | None) -> Outline:
        """Everything but the events."""
        named = (self.lanes, self.end_ns, self.steps, step, self.configs, self.groups)
        return Outline(*named, origin_ns=self.origin_ns)

    def between(self, start: int, end: int) -> Ints:
        """Rows that overlap a stretch of time."""
        return np.flatnonzero((self.start <= end) & (self.start + self.length >= start))

    def rows_of(self, events: Ints) -> Ints:
        """The rows of these events; events that are not drawn are left out."""
        if not len(self):
            return np.empty(0, np.int64)
        at = np.minimum(np.searchsorted(self.event, events, sorter=self._by_event), len(self) - 1)
        found = self._by_event[at].astype(np.int64)
        return np.compress(self.event[found] == events, found)

    @cached_property
    def _by_event(self) -> Ints:
        return np.argsort(self.event).astype(np.int32)

    def bands(self, rows: Ints) -> Bands:
        """The busy time of these rows, whatever their order; of two at once the first counts."""
        ordered = rows[np.argsort(self.start[rows], kind="stable")]
        start = self.start[ordered]
        return Bands(*partition(start, start + self.length[ordered]), self.group[ordered])

    def packed(self, rows: Ints) -> Packed:
        """These rows as a page reads them."""
        return pack({name: column[rows] for name, column in self.columns.items()}, _DIFFERENCES)


def _rows(host: Host, events: Ints, depth: Ints, layer: Ints) -> Ints:
    """The row of each event of a lane: host ranges by depth, annotations, then GPU work."""
    row = np.where(layer == 0, depth, 0).astype(np.int64)
    below = int(row.max()) + 1 if (layer == 0).any() else 0
    for number in (1, 2, 3):
        mine = np.flatnonzero(layer == number)
        if len(mine):
            row[mine] = below + free_rows(host.start[events[mine]], host.end[events[mine]])
            below = int(row[mine].max()) + 1
    return row


def _modules(trace: Trace) -> Ints:
    """For every row of `gpu`, the name of the module call that it belongs to, backward work too."""
    if not trace.module_calls.is_module.any():
        return np.full(len(trace.gpu), -1, np.int64)
    host, call = trace.origins.host, trace.module_calls.owners.call
    name = np.where(call >= 0, host.name[np.maximum(call, 0)], -1)
    return np.where(name < len(trace.host.names), name, -1)


# What a call of the runtime or driver does, by its name; a synchronous copy waits.
CALL_GROUPS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("launch_call", LAUNCHES), ("wait_call", WAITS), ("copy_call", COPIES),
)  # fmt: skip
OTHER_CALL = "other_call"


def call_group(name: str) -> str:
    """Whether a call launches, waits or copies."""
    return next((group for group, words in CALL_GROUPS if words.fullmatch(name)), OTHER_CALL)


def call_groups(host: Host) -> dict[int, str]:
    """The group of every name that a call bears, by its number."""
    numbers = distinct(host.name[host.is_call]).tolist()
    return {number: call_group(host.names[number]) for number in numbers}


def _groups(trace: Trace, columns: Mapping[str, Ints]) -> tuple[list[str], Ints]:
    """Groups by name, and the number of each event's: its role, `copy`, its kind, or for a call
    what it does.
    """
    roles = trace.kernel_cases["role"].to_list()
    copies = np.isin(columns["kind"], [KIND["gpu_memcpy"], KIND["gpu_memset"]])
    kinds = (*HOST_KINDS, "gpu_user_annotation", *OTHER_KINDS)
    calls = (*(name for name, _ in CALL_GROUPS), OTHER_CALL)
    names = list(dict.fromkeys([*sorted({"copy", *roles}), *kinds, *calls]))
    number = {name: at for at, name in enumerate(names)}
    of_kind = np.array([number.get(kind, number["copy"]) for kind in KINDS], np.int32)
    of_case = np.array([*(number[role] for role in roles), -1], np.int32)
    case = np.where(copies, -1, columns["case"])
    group = np.where(case >= 0, of_case[case], of_kind[columns["kind"]])
    of_name = np.full(len(trace.host.names), -1, np.int32)
    for name, text in call_groups(trace.host).items():
        of_name[name] = number[text]
    called = np.isin(columns["kind"], [KIND[kind] for kind in CALL_KINDS])
    return names, np.where(called, of_name[columns["name"]], group)


def free_rows(start: Ints, end: Ints) -> Ints:
    """For ranges in order of start: the first row on which each finds room."""
    rows = np.zeros(len(start), np.int64)
    if not len(start) or bool((start[1:] >= np.maximum.accumulate(end)[:-1]).all()):
        return rows
    free: list[int] = []
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        vacant = (row for row, until in enumerate(free) if until <= begin)
        row = next(vacant, min(len(free), MOST_ROWS - 1))
        if row == len(free):
            free.append(finish)
        free[row] = max(free[row], finish)
        rows[at] = row
    return rows


def _positions(sorted_ids: Ints, wanted: Ints) -> Ints:
    if not len(sorted_ids):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(sorted_ids, wanted), len(sorted_ids) - 1)
    return np.where(sorted_ids[at] == wanted, at, -1)


def _values_at(values: Ints, at: Ints) -> Ints:
    """`values[at]`, and -1 where `at` is."""
    if not len(values):
        return np.full(len(at), -1, np.int64)
    return np.where(at >= 0, values[np.maximum(at, 0)], -1)


def _configs(trace: Trace) -> tuple[list[str], Ints]:
    """Distinct launch configurations as text, and the one of every row of `gpu`."""
    # 0% is no estimate (large shared memory), or a few warps that round to nothing
    estimated = pl.when(pl.col("occupancy") > 0).then("occupancy")
    table = trace.tables["gpu"].select(_CONFIG).with_columns(occupancy=estimated)
    hashes = table.hash_rows().to_numpy()
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    rows = [
        [(name, value) for name, value in row.items() if value is not None]
        for row in table[first].iter_rows(named=True)
    ]
    texts = [", ".join(f"{n.replace('_', ' ')} {_setting(n, v)}" for n, v in row) for row in rows]
    return texts, number.reshape(-1)


def _setting(name: str, value: Any) -> str:
    if isinstance(value, list):
        return json_text(value)
    if name in ("bytes", "shared_memory"):
        return bytes_text(value)
    unit = {"occupancy": "%", "registers": " per thread"}.get(name, "")
    return f"{round(value, 2):,}{unit}"


_LONG_AGO = -(1 << 62)  # the end of what precedes the first piece


class Bands:
    """The intervals of one row, in order of start, each with the number of its group.

    The union of a group's intervals is kept with the busy time before each piece, so the busy time
    of a pixel is a difference of two look-ups. `web/src/core/busy.ts` does the same in a page.
    """

    def __init__(self, start: Ints, end: Ints, group: Ints) -> None:
        groups = distinct(group).tolist()
        self.groups = {
            each: IntervalUnion(start[group == each], end[group == each]) for each in groups
        }

    def pixels(self, edges: Ints) -> dict[int, Ints]:
        """Busy ns between each two of these moments, by group; nothing for idle groups."""
        found = {each: np.diff(busy.up_to(edges)) for each, busy in self.groups.items()}
        return {each: busy for each, busy in found.items() if busy.any()}


def edges(start: int, end: int, width: int) -> Ints:
    """The whole nanoseconds at which `width` pixels begin, and where the last one ends."""
    whole, rest = divmod(end - start, width)  # the product of all three may exceed 64 bits
    pixel = np.arange(width + 1, dtype=np.int64)
    return start + whole * pixel + rest * pixel // width


def partition(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Intervals in order of start, cut so that a moment belongs to the first that holds it.

    Groups that run at once then add up to the time in which something ran.
    """
    before = np.maximum.accumulate(np.concatenate([[_LONG_AGO], end[:-1]]))[: len(start)]
    began = np.maximum(start, before)
    return began, np.maximum(end, began)
