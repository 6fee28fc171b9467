"""The page of a snapshot: live bytes over time, the stacks of the peak, lines and allocations.

A history is thinned to points: of each stretch the ends, the least and the most. What is live at a
point is exact, however many events lie between two of them. The largest allocations are drawn one
by one; the others of a group are its "smaller".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.base.tables import TEXT, WORDS, Column, Table
from foretrace.base.terminal import plain, stem
from foretrace.base.units import plural, time_text
from foretrace.memory import DeviceMemoryDocument, MemoryDocument
from foretrace.memory import lines as memory_page
from foretrace.pages.page import Packed, pack, page
from foretrace.pages.page_tables import TableData, shown
from foretrace.pages.view_data import BoxTree, thinned
from foretrace.read.snapshot import Numbers, StackFrame
from foretrace.trace.allocator import categories as known
from foretrace.trace.allocator.categories import CATEGORIES
from foretrace.trace.allocator.view import Labels, MemoryView

MOST_POINTS = 18_000  # of all devices: four for each of 3,000 stretches, or every event
MOST_BOXES = 4_000  # allocations that are drawn one by one
MOST_AT_PEAK = 300  # of them those that hold the peak, whatever their size
LEAST_BOX = 0.002  # of the peak: a smaller one is not a pixel high
MOST_GROUPS = 12  # lines or modules with a colour of their own; the last is all others
CANDIDATES = 40  # for those: by what they hold at the peak, and over time
MOST_STACKS = 4_000
MOST_FRAMES = 20_000  # of all stacks together
MOST_DEPTH = 500  # frames of one stack, from the innermost
MOST_ROWS = 300  # of a table
MOST_STEPS = 2_000
MOST_LETTERS = 300  # of a name
_NS = 1_000
# from below: what stays longest comes first, so that what comes and goes does not shift it
ORDER = (
    *(known.PARAMETER, known.STATE, known.WORKSPACE, known.GRAPH, known.KEPT, known.UNKNOWN),
    *(known.GRADIENT, known.INPUT, known.ACTIVATION, known.TEMPORARY),
)
KINDS = ("own", "library", "torch", "native", "op", "told")
OP, TOLD = KINDS.index("op"), KINDS.index("told")
# of C++: what a person knows by name
_TELLING = ("torch::autograd::generated::", "at::_ops::")


class LiveGroups(Struct, frozen=True):
    """Groups of allocations, from below; `folded` names have none of their own: they are in the
    last.
    """

    by: str
    names: list[str]
    folded: int


class StackTree(Struct, frozen=True):
    """Frames as a tree: `above` (-1 for the outermost), `name` and `kind` in columns."""

    names: list[str]
    boxes: Packed


class PeakFlame(Struct, frozen=True):
    """The stacks of what is live at the peak; `boxes` have own bytes by category too."""

    names: list[str]
    boxes: Packed
    passes: list[str]
    left_out_bytes: int
    kinds: tuple[str, ...] = KINDS


class DrawnPart(Struct, frozen=True):
    """A stretch of a history. `points` are moments after an event; `boxes` are allocations.

    `held` has what is live at each point for each grouping: columns `bytes0`, `count0`, and so on.
    A box is live from event `start` (-1: before the history) up to `end` (`events`: never freed);
    `row` tells it apart. Its columns `category`, `line` and `module` are its groups; `named` is a
    place in `lines`, `owner` one in `modules`, `stack` and `freed_by` are innermost frames of
    `stacks`. `left_out` events lie between the points.
    """

    points: Packed
    left_out: int
    held: list[Packed]
    boxes: Packed
    lines: list[str]
    modules: list[str]
    stacks: StackTree


class DeviceDrawing(Struct, frozen=True):
    """One device. `steps` are the events at which another step begins; `counted` are the steps of
    the optimizer.
    """

    title: str
    head: TableData
    events: int
    allocations: int
    peak_event: int
    peak_ns: int
    peak_bytes: int
    steps: list[int]
    counted: int
    steps_left_out: int
    groups: list[LiveGroups]
    whole: DrawnPart
    flame: PeakFlame
    tables: list[TableData]
    categories: tuple[str, ...] = CATEGORIES
    ran: tuple[str, ...] = known.PASSES


class SnapshotPage(Struct, frozen=True):
    """What the script of the page reads; one that is `served` may ask for parts."""

    devices: list[DeviceDrawing]
    served: bool = False
    kind: str = "snapshot"


def memory_html(document: MemoryDocument, views: Sequence[MemoryView]) -> str:
    """The page as HTML; `views` are the devices of the document, in its order."""
    data = SnapshotPage([each.device() for each in drawings(document, views)])
    return page(plain(stem(document.path)), data)


def drawings(document: MemoryDocument, views: Sequence[MemoryView]) -> list[Drawing]:
    """The devices of a document."""
    found = zip([document.device, *document.others], views, strict=True)
    alone = [(replace(document, device=device, others=[]), view) for device, view in found]
    return [Drawing(each, view, MOST_POINTS // len(views)) for each, view in alone]


class Drawing:
    """A device, as a page draws it; `part` has any stretch of its history in more detail."""

    def __init__(self, document: MemoryDocument, view: MemoryView, most: int) -> None:
        self.document, self.view, self.most = document, view, most
        place = np.argsort(ORDER)
        by = {"category": Labels(place[view.category], [CATEGORIES[at] for at in ORDER])}
        by["line"] = view.by_line
        if view.has_modules:
            by["module"] = view.by_module
        whole = _Moments(view, most, 0, len(view.history))
        self.groups = [whole.groups(name, labels) for name, labels in by.items()]

    def device(self) -> DeviceDrawing:
        """All of it."""
        view, device = self.view, self.document.device
        starts = [start for start, _ in view.steps[1:]]
        few = len(starts) <= MOST_STEPS
        return DeviceDrawing(
            f"device {device.device}",
            shown(memory_page.page(self.document, top=0)[0]),
            *(len(view.history), len(view.lives), view.peak, device.peak_ns, view.peak_bytes),
            *(starts if few else [], device.steps, 0 if few else len(starts)),
            [each for each, _ in self.groups],
            self.part(0, len(view.history)),
            _flame(view),
            [*_tables(device), self._allocations()],
        )

    def _allocations(self) -> TableData:
        """The largest that are live at the peak; each leads to its box."""
        view, lives, time = self.view, self.view.lives, self.view.history.time_us
        rows = view.holders[np.argsort(-lives.size[view.holders], kind="stable")[:MOST_AT_PEAK]]
        events = len(view.history)

        def live(row: int) -> str:
            """How long; at least so long where its beginning or its end is not in the history."""
            start, end = int(lives.start[row]), int(lives.end[row])
            ns = int(time[min(end, events - 1)] - time[max(start, 0)]) * _NS
            return f"at least {time_text(ns)}" if start < 0 or end >= events else time_text(ns)

        def since(row: int) -> int | None:
            start = int(lives.start[row])
            return None if start < 0 else int(time[start] - time[0]) * _NS

        modules = [
            Column("module", lambda row: _name(view.by_module.name(row)), WORDS, first=False)
        ]
        columns = (
            Column("share", lambda row: int(lives.size[row]) / (view.peak_bytes or 1), "share"),
            Column("bytes", lambda row: int(lives.size[row]), "bytes"),
            Column("line", lambda row: _name(view.by_line.name(row)), WORDS),
            Column("is", lambda row: CATEGORIES[view.category[row]], WORDS),
            *(modules if view.has_modules else []),
            Column("allocated", since, "ns"),
            Column("live for", live, TEXT),
        )
        table = Table("The largest allocations at the peak", columns, rows.tolist())
        return shown(table, to=[f"row {row}" for row in rows.tolist()])

    def part(self, first: int, last: int) -> DrawnPart:
        """The events from `first` up to, not with, `last`."""
        view = self.view
        moments = _Moments(view, self.most, first, last)
        shown = moments.boxes()
        by_size = shown[np.argsort(-view.lives.size[shown], kind="stable")]
        stacks, node = _tree(view, [view.lives.stack[by_size], view.lives.freed_by[by_size]])
        lines, named = _used(view.by_line, shown)
        modules, owner = _used(view.by_module, shown) if view.has_modules else ([], 0 * named)
        columns = {each.by: group[shown] for each, group in self.groups}
        columns |= {"row": shown, "named": named, "owner": owner}
        columns["stack"] = node[view.lives.stack[shown]]
        columns["freed_by"] = node[view.lives.freed_by[shown]]
        held = [moments.packed_groups(group, len(each.names)) for each, group in self.groups]
        time = view.history.time_us - view.history.time_us[0]
        start, end = view.lives.start[shown], view.lives.end[shown]
        made = {
            "start": start,
            "end": end,
            "start_ns": time[np.maximum(start, 0)] * _NS,
            "end_ns": time[np.minimum(end, len(time) - 1)] * _NS,
            "size": view.lives.size[shown],
            "is": view.category[shown],
            "ran": view.ran[shown],
        }
        boxes = pack(made | columns, frozenset(("start", "start_ns", "end_ns", "row")))
        left_out = last - first - len(moments.event)
        return DrawnPart(moments.packed(), left_out, held, boxes, lines, modules, stacks)


def _tables(device: DeviceMemoryDocument) -> Iterator[TableData]:
    """What is live at the peak, by line and by module."""
    sizes = Column("share", "share"), Column("bytes", "bytes"), Column("tensors", "count")
    lines = (
        *sizes,
        Column("line", lambda row: _name(row.line), WORDS),
        Column("is", "category", WORDS),
        Column("live for", "live_ns"),
    )
    modules = (*sizes, Column("module", lambda row: _name(row.name), WORDS))
    for by, columns, rows in (("line", lines, device.lines), ("module", modules, device.modules)):
        left = max(len(rows) - MOST_ROWS, 0)
        more = f"{plural(left, 'smaller row')} not in the page." if left else ""
        if rows:
            yield shown(Table(f"At the peak, by {by}", columns, rows[:MOST_ROWS], more))


class _Moments:
    """The points of a stretch of events; of each allocation (`rows`) those at which it is live."""

    def __init__(self, view: MemoryView, most: int, first: int, last: int) -> None:
        self.view, lives = view, view.lives
        self.event = first + thinned(view.curve[first:last], most)
        self.rows = np.flatnonzero((lives.start < last) & (lives.end > first))
        self.first = np.searchsorted(self.event, lives.start[self.rows])
        self.last = np.searchsorted(self.event, lives.end[self.rows])
        self.size = lives.size[self.rows]
        # bytes times points: what a picture shows of it
        self.area = self.size * (self.last - self.first)

    def packed(self) -> Packed:
        """Event, time, live bytes and reserved bytes of each point."""
        view, time = self.view, self.view.history.time_us
        columns = {
            "event": self.event,
            "time": (time[self.event] - time[0]) * _NS,
            "live": view.curve[self.event],
            "reserved": view.reserved[self.event],
        }
        return pack(columns, frozenset(columns))

    def held(self, group: Numbers, count: int, weight: Numbers | int) -> Numbers:
        """What is live at each point, in each group: one row for each point."""
        change = np.zeros((len(self.event) + 1, count), np.int64)
        np.add.at(change, (self.first, group), weight)
        np.add.at(change, (self.last, group), -weight)
        return np.cumsum(change, axis=0)[:-1]

    def packed_groups(self, group: Numbers, count: int) -> Packed:
        """Bytes and count of each group at each point; `group` is that of every allocation."""
        own = group[self.rows]
        parts = {"bytes": self.held(own, count, self.size), "count": self.held(own, count, 1)}
        columns = {f"{k}{at}": part[:, at] for k, part in parts.items() for at in range(count)}
        return pack(columns, frozenset(columns))

    def groups(self, by: str, labels: Labels) -> tuple[LiveGroups, Numbers]:
        """The groups of a picture of the whole history, and that of each allocation."""
        count = len(labels.names)
        area = np.bincount(labels.of[self.rows], weights=self.area, minlength=count)
        used = np.flatnonzero(np.bincount(labels.of, minlength=count))
        own = used if by == "category" else self._largest(labels.of, area, used)
        names = [_name(labels.names[at]) for at in own.tolist()]
        place = np.full(count, len(own), np.int64)
        place[own] = np.arange(len(own))
        folded = len(used) - len(own)
        if folded:
            names.append(f"{folded} other {by}s")
        return LiveGroups(by, names, folded), place[labels.of]

    def _largest(self, of: Numbers, area: Numbers, used: Numbers) -> Numbers:
        """Those that hold the most at any point; what stays longest comes first."""
        if len(used) > MOST_GROUPS:
            rows = self.view.holders
            held = np.bincount(of[rows], weights=self.view.lives.size[rows], minlength=len(area))
            most = [np.argsort(-each, kind="stable")[:CANDIDATES] for each in (area, held)]
            used = np.intersect1d(used, np.concatenate(most))
            place = np.full(len(area), len(used), np.int64)
            place[used] = np.arange(len(used))
            high = self.held(place[of[self.rows]], len(used) + 1, self.size).max(axis=0)[:-1]
            used = used[np.argsort(-high, kind="stable")[: MOST_GROUPS - 1]]
        return used[np.argsort(-area[used], kind="stable")]

    def boxes(self) -> Numbers:
        """The allocations that are drawn one by one, in order of their start."""
        view, holders = self.view, self.view.holders
        at_peak = holders[np.argsort(-view.lives.size[holders], kind="stable")[:MOST_AT_PEAK]]
        if not self.event[0] <= view.peak <= self.event[-1]:
            at_peak = at_peak[:0]
        large = np.flatnonzero((self.size >= LEAST_BOX * view.peak_bytes) & (self.area > 0))
        large = large[np.argsort(-self.area[large], kind="stable")[:MOST_BOXES]]
        return distinct(np.concatenate([at_peak, self.rows[large]]))


def _used(labels: Labels, rows: Numbers) -> tuple[list[str], Numbers]:
    used = distinct(labels.of[rows])
    return [_name(labels.names[at]) for at in used.tolist()], np.searchsorted(used, labels.of[rows])


def _name(text: str) -> str:
    """A name of the program: without marks of direction, and not longer than a line or two."""
    shown = plain(text[: MOST_LETTERS + 1])
    return shown if len(shown) <= MOST_LETTERS else f"{shown[: MOST_LETTERS - 1]}…"


def _tree(view: MemoryView, stacks: Sequence[Numbers]) -> tuple[StackTree, Numbers]:
    """Stacks in full, and the innermost frame of each stack of the snapshot, or -1."""

    def full(frame: StackFrame) -> str:
        if _kind(frame) == OP:
            return _short(frame)
        where = f"{frame.file}:{frame.line}" if frame.line else frame.file
        return _name(f"{frame.name} ({where})" if where.strip("?") else frame.name)

    boxes, found = BoxTree({}), np.full(len(view.snapshot.stacks), -1, np.int64)
    frames = view.snapshot.frames
    for stack in dict.fromkeys(np.concatenate(stacks).tolist()):
        if len(boxes.numbers) < MOST_FRAMES:
            inner = [frames[at] for at in view.snapshot.stacks[stack][:MOST_DEPTH]]
            found[stack] = boxes.add((_kind(each), full(each)) for each in reversed(inner))
    return StackTree([*boxes.names], pack(boxes.columns())), found


def _kind(frame: StackFrame) -> int:
    return OP if frame.name.startswith(_TELLING) else known.frame_kind(frame)


def _flame(view: MemoryView) -> PeakFlame:
    """The stacks of the peak with the most bytes; the others are left out."""
    rows, size = view.holders, view.lives.size
    key = view.lives.stack[rows] * 2 + view.lives.before[rows]
    stacks, first, of = np.unique(key, return_index=True, return_inverse=True)
    total = np.bincount(of, weights=size[rows])
    kept = np.argsort(-total, kind="stable")[:MOST_STACKS]
    boxes, inner = BoxTree({}), np.full(len(stacks), -1, np.int64)
    for at in kept.tolist():
        if len(boxes.numbers) >= MOST_FRAMES:
            break
        inner[at] = boxes.add(_path(view, int(rows[first[at]])))
    drawn = inner[of] >= 0
    own = np.zeros((len(boxes.numbers), len(CATEGORIES)), np.int64)
    np.add.at(own, (inner[of][drawn], view.category[rows][drawn]), size[rows][drawn])
    some = [at for at in ORDER if own[:, at].any()]
    columns = boxes.columns() | {CATEGORIES[at]: own[:, at] for at in some}
    left = int(size[rows][~drawn].sum())
    return PeakFlame([*boxes.names], pack(columns), [CATEGORIES[at] for at in some], left)


def _path(view: MemoryView, row: int) -> list[tuple[int, str]]:
    """The lines of Python, outermost first, without those by which torch calls a module.

    Without one, the ops and autograd's nodes among the frames of C++; without any frame
    the words for it.
    """
    stack = view.snapshot.stacks[int(view.lives.stack[row])][:MOST_DEPTH]
    frames = [view.snapshot.frames[at] for at in stack]
    python = [each for each in frames if each.file.endswith(".py")]
    named = [each for each in frames if each.name.startswith(_TELLING)]
    called = [each for each in python if each.name not in known.MODULE_CALLS]
    path = [(_kind(each), _short(each)) for each in reversed(called or python or named)]
    return path or [(TOLD, _name(view.line(row)))]


def _short(frame: StackFrame) -> str:
    if not frame.file.endswith(".py"):
        return _name(frame.name.split("(")[0])
    return _name(f"{frame.name} {frame.file.rsplit('/', 1)[-1]}:{frame.line}")
