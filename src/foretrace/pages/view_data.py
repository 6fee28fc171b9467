"""What single views of a page are drawn from: flame graphs, memory over time, idle time, and
matmuls on the map of the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from operator import itemgetter

import msgspec
import numpy as np
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.tables import TEXT, WORDS, Column, Line, Table
from foretrace.base.terminal import plain
from foretrace.base.units import DASH, bytes_text, plural, time_text
from foretrace.look.rules.launches import IDLE_CAUSES, NO_OPS
from foretrace.pages.page import Packed, pack
from foretrace.pages.page_tables import TableData, shown
from foretrace.trace.flame import RAN, FlameViews, Stacked
from foretrace.trace.idle import CAUSES, idle_pieces
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace
from foretrace.trace.traced_memory import DeviceMemory, Holder, over_time
from foretrace.work.gemms import table
from foretrace.work.gemms.answers import plane
from foretrace.work.gemms.documents import HeatPlane
from foretrace.work.gemms.table import FAR, gemm_point, point_of

MOST_STACKS = 5_000  # stacks; a page cannot show more, and the least are left out
KINDS = ("module", "range", "pass", "op", "call", "kernel")
TREES = (("gpu", "module"), ("gpu", "op"), ("host", "module"), ("host", "op"))


class FlameTree(Struct, frozen=True):
    """Boxes in columns: `above` (-1 for the outermost), `name`, `kind`, and own ns by pass: of the
    recording, and per step (`step forward`) where there are steps.

    `left_out_ns` is the time of stacks that have no room.
    """

    time: str
    by: str
    boxes: Packed
    left_out_ns: int


class Flame(Struct, frozen=True):
    """All flame graphs. `work` has each GPU operation: its box by module and by op, its group, a
    place in `groups`, and its kernel by case, or -1. `steps` is their number.
    """

    names: list[str]
    trees: list[FlameTree]
    work: Packed
    has_modules: bool
    groups: list[str]
    steps: int
    kinds: tuple[str, ...] = KINDS
    passes: tuple[str, ...] = RAN


def flame(trace: Trace) -> Flame:
    """The flame graphs of a trace."""
    views = FlameViews(trace)
    names: dict[str, int] = {}
    case, group = trace.order.case_of_work, trace.grouped.group
    trees, of_work = [], {"event": trace.gpu.id, "case": case, "group": group}
    steps, step = len(trace.spans.steps), trace.spans.step_of_events()
    for time, by in TREES:
        boxes, left_out_ns, box = _tree(views.of(time, by), names, step, steps)
        trees.append(FlameTree(time, by, boxes, left_out_ns))
        if time == "gpu":
            of_work[by] = box
    work = pack(of_work, frozenset({"event"}))
    groups = [plain(name) for name in trace.grouped.names]
    return Flame(list(names), trees, work, views.stacks.has_modules, groups, steps)


class BoxTree:
    """Boxes that grow by paths, outermost first; several trees may number the same `names`."""

    def __init__(self, names: dict[str, int]) -> None:
        self.names = names
        self.numbers: dict[tuple[int, int, int], int] = {}

    def add(self, path: Iterable[tuple[int, str]]) -> int:
        """The innermost box of a path; -1 where it is empty."""
        box = -1
        for kind, name in path:
            named = self.names.setdefault(name, len(self.names))
            box = self.numbers.setdefault((box, kind, named), len(self.numbers))
        return box

    def columns(self) -> dict[str, Ints]:
        """One that is inside another comes after it."""
        above, kind, name = np.array([*self.numbers], np.int64).reshape(-1, 3).T
        return {"above": above, "kind": kind, "name": name}


def _tree(
    stacked: Stacked, names: dict[str, int], step: Ints, steps: int
) -> tuple[Packed, int, Ints]:
    """The boxes of the longest stacks, the ns of the others, the innermost box of each row."""
    boxes = BoxTree(names)
    number, first, where = np.unique(stacked.number, return_index=True, return_inverse=True)
    ns = np.zeros((len(number), len(RAN)), np.int64)
    np.add.at(ns, (where, stacked.ran), stacked.ns)
    in_steps, inside = np.zeros_like(ns), step[stacked.event] >= 0
    np.add.at(in_steps, (where[inside], stacked.ran[inside]), stacked.ns[inside])
    total = ns.sum(axis=1)
    longest = np.argsort(-total, kind="stable")[:MOST_STACKS]
    kept = longest[total[longest] > 0]
    kept = kept[np.argsort(first[kept])]  # in order of first launch
    inner = np.full(len(number), -1, np.int64)
    for at in kept.tolist():
        frames = stacked.frames(int(first[at]))
        inner[at] = boxes.add((KINDS.index(kind), plain(name)) for kind, name in frames)
    columns = boxes.columns()
    for before, spent in (("", ns), ("step ", in_steps // max(steps, 1))):
        own = np.zeros((len(boxes.numbers), len(RAN)), np.int64)
        np.add.at(own, inner[kept], spent[kept])
        if steps or not before:
            columns |= {f"{before}{ran}": own[:, at] for at, ran in enumerate(RAN)}
    return pack(columns), int(total.sum() - ns[kept].sum()), inner[where]


MOST_POINTS = 40_000  # of one device: a hundred kB of a page, and forty for each pixel
MOST_HOLDERS = 200


class MemoryPage(Struct, frozen=True):
    """The memory of a device after each event: `time` from the first event of the trace,
    `allocated` and, where it is known, `reserved`.

    An event that is not in the columns lies between others of its stretch of time that are larger
    and smaller. `holders` says who holds the peak.
    """

    device: str
    points: Packed
    peak_bytes: int
    peak_ns: int
    holders: TableData


def memory(trace: Trace, origin_ns: int) -> list[MemoryPage]:
    """The memory of every device of a trace."""
    pages = []
    for found in over_time(trace):
        kept = thinned(found.allocated, MOST_POINTS, found.reserved)
        columns = {"time": found.time[kept] - origin_ns, "allocated": found.allocated[kept]}
        if found.reserved is not None:
            columns["reserved"] = found.reserved[kept]
        points = pack(columns, frozenset(columns))
        peak = int(found.allocated[found.peak]), int(found.time[found.peak]) - origin_ns
        left_out = len(found.time) - len(kept)
        pages.append(MemoryPage(found.name, points, *peak, _holders(found, peak[0], left_out)))
    return pages


_ENGINE = "autograd::engine::evaluate_function: "
_BEFORE = "allocated before the recording"


def _holders(found: DeviceMemory, peak: int, left_out: int) -> TableData:
    """Who holds the peak; a row leads to the op that made the largest of these allocations."""

    def op(row: Holder) -> str:
        """The outermost op and the one that allocates."""
        names = [name.removeprefix(_ENGINE) for name in (*row.ops[:1], *row.ops[-1:])]
        return " > ".join(dict.fromkeys(names)) or "no op recorded"

    rows = found.holders[:MOST_HOLDERS]
    if found.before:
        rows = [*rows, Holder((_BEFORE,), (), "", found.before, 0, -1)]
    share = Column("share", lambda row: None if found.relative else row.bytes / peak, "share")
    columns = (
        share,
        Column("bytes", "bytes"),
        Column("count", lambda row: row.count or None),
        Column("op", op, WORDS),
        Column("module", lambda row: row.modules[-1] if row.modules else "", WORDS, first=False),
        Column("pass", "ran", WORDS, first=False),
    )
    before = f"{bytes_text(found.before)} of it were {_BEFORE}: the trace does not tell by whom."
    more = [
        before if found.before else "",
        "The trace has no totals: allocated counts from the first memory event."
        if found.relative
        else "",
        f"{plural(len(found.holders) - MOST_HOLDERS, 'smaller row')} not in the page."
        if len(found.holders) > MOST_HOLDERS
        else "",
        f"{plural(left_out, 'memory event')} between those that are drawn." if left_out else "",
    ]
    title = f"Who holds the peak of {bytes_text(peak)} on {found.name}"
    table = Table(title, columns, rows, " ".join(filter(None, more)))
    return shown(table, to=[f"event {row.event}" for row in rows])


def thinned(values: Ints, most: int, more: Ints | None = None) -> Ints:
    """Places to draw: all, or of each stretch the ends, the least and the most."""
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), most // 6 + 1).astype(np.int64)
    ends = [edges[:-1], edges[1:] - 1]
    stretches = list(pairwise(edges.tolist()))
    for each in (values, *(() if more is None else (more,))):
        for signed in (each, -each):
            ends.append(np.array([start + signed[start:end].argmax() for start, end in stretches]))
    return distinct(np.concatenate(ends))


_UNPROVEN = "while the host made launches whose GPU work is not in the trace"


class IdleTime(Struct, frozen=True):
    """`causes` are (name, words); `pieces` has start, length, cause (a place in `causes`) and gpu,
    by GPU and in order of time. Pieces that touch are of one gap.
    """

    causes: list[tuple[str, str]]
    pieces: Packed


def idle_time(trace: Trace, origin_ns: int) -> IdleTime:
    """All idle time of a recording, in ns from its first event."""
    found = idle_pieces(trace, trace.gaps)
    words = IDLE_CAUSES
    if not trace.host.is_op.any():
        words = words | dict.fromkeys(("host", "launch"), NO_OPS)
    causes = [(cause, words[cause]) for cause in CAUSES]
    columns = {
        "start": found.start - origin_ns,
        "length": found.end - found.start,
        "cause": found.cause,
        "gpu": found.device,
    }
    return IdleTime([*causes, ("unproven", _UNPROVEN)], pack(columns, frozenset({"start"})))


MOST_MATMULS = 40  # matmuls of a table
_MATMUL_HEAD = ("matmul", "launches", "kernel here", "time here", "kernel of the map")


def matmuls_on_map(trace: Trace) -> list[TableData]:
    """The plane of M and N with the matmuls of a trace, and each of them against the map; nothing
    where the card has no map, or the trace no matmul with shapes.
    """
    found = table.of_device(trace.about.device)
    cases = []
    for case in trace.kernel_rows if found else ():
        if case.role == "gemm" and case.call is not None and case.launches:
            given = [each for at in range(3) if (each := case.call.tensor(at)) is not None]
            sizes, types = [each.dims for each in given], [each.type for each in given]
            if point := gemm_point(case.call.name, sizes, types, case.name):
                cases.append((point, case))
    if found is None or not cases:
        return []
    cases.sort(key=lambda each: -(each[1].ns or 0))
    usual = msgspec.structs.replace(cases[0][0], epilogue="none")
    here = {
        (_octave(point.m), _octave(point.n))
        for point, _ in cases
        if (point.dtype, point.layout) == (usual.dtype, usual.layout)
    }
    rows = []
    for point, case in cases[:MOST_MATMULS]:  # the nearest where the map does not hold it
        nearest, away = found.nearest(point, 1)
        held = found.rows.get(point)
        row = found.frame.row(int(nearest[0]) if held is None else held, named=True)
        name, took = row["short"], time_text(row["kernel_us"] * 1e3)
        if held is None:
            name, took = f"nearest: {name}", f"{took} for {point_of(row).size}"
            name, took = ("not measured",) * 2 if away[0] > FAR else (name, took)
        elif row["kernel"] == case.name:
            name = "the same"
        rows.append((point.text, case.launches, case.id.short, case.median_ns, name, took))
    units = (WORDS, "count", WORDS, "ns", WORDS, TEXT)
    heads = zip((*_MATMUL_HEAD, "time of the map"), units, strict=True)
    columns = [Column(name, itemgetter(at), unit) for at, (name, unit) in enumerate(heads)]
    against = Table(f"Matmuls on the map of the {found.facts.device}", columns, rows)
    return [_plane(plane(found, usual), here), shown(against)]


def _octave(size: int) -> int:
    return 1 << (max(size, 1).bit_length() - 1)


def _plane(found: HeatPlane, here: set[tuple[int, int]]) -> TableData:
    """How near to its roof a matmul of each octave comes; a dot where the trace has some."""
    shares = {(cell.m, cell.n): cell.roof_percent / 100 for cell in found.cells}
    sizes, rows = (sorted({getattr(cell, name) for cell in found.cells}) for name in ("n", "m"))
    kind = f"{found.dtype} {found.layout}, epilogue {found.epilogue}, all K together"
    lines = [
        Line("", f"{kind}: percent of the roof, medians of octaves; ● has matmuls of this trace."),
        Line("", "Times of the map are of the kernel alone, with L2 empty before."),
    ]

    def share(n: int) -> Callable[[int], float | None]:
        return lambda m: shares.get((m, n))

    columns = [Column("M \\ N", lambda m: f"{m}+", WORDS)]
    columns += [Column(f"{n}+", share(n), "share") for n in sizes]
    drawn = shown(Table("Percent of the roof by M and N", columns, rows, lines=lines), heat=True)
    for row, m in enumerate(rows):
        for at, n in enumerate(sizes, 1):
            if (m, n) in here:
                drawn.cells[row][at] = f"● {drawn.cells[row][at].removesuffix(DASH)}"
    return drawn
