"""What single views of a page are drawn from: flame graphs, memory over time, idle time, matmuls on
the map of the card, and the answers, which are those of `look --json` and of the first screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.base.terminal import plain
from foretrace.base.units import time_text
from foretrace.look.documents import Composition, GroupRow, Look, Overview
from foretrace.look.fixes import as_uncertain
from foretrace.look.groups import RECORDING, group_rows, of_recording
from foretrace.look.lines import folded
from foretrace.look.on_cpu import COMPUTES, cpu_groups
from foretrace.look.rules.launches import IDLE_CAUSES, NO_OPS
from foretrace.look.savings import code_in, next_fix
from foretrace.pages.page import Packed, pack
from foretrace.trace.flame import RAN, FlameViews, Stacked
from foretrace.trace.idle import CAUSES, idle_pieces
from foretrace.trace.intervals import Ints
from foretrace.trace.trace import Trace
from foretrace.trace.traced_memory import Holder, over_time
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

    `points_left_out` events are not in the columns: each lies between others of its stretch of time
    that are larger and smaller. `before_bytes` of the peak were allocated before the recording.
    """

    device: str
    points: Packed
    points_left_out: int
    relative: bool
    peak_bytes: int
    peak_ns: int
    holders: list[Holder]
    holders_left_out: int
    before_bytes: int | None


def memory(trace: Trace, origin_ns: int) -> list[MemoryPage]:
    """The memory of every device of a trace."""
    pages = []
    for found in over_time(trace):
        kept = thinned(found.allocated, MOST_POINTS, found.reserved)
        columns = {"time": found.time[kept] - origin_ns, "allocated": found.allocated[kept]}
        if found.reserved is not None:
            columns["reserved"] = found.reserved[kept]
        holders = [
            replace(each, ops=tuple(map(plain, each.ops)), modules=tuple(map(plain, each.modules)))
            for each in found.holders[:MOST_HOLDERS]
        ]
        points, left_out = pack(columns, frozenset(columns)), len(found.time) - len(kept)
        peak = int(found.allocated[found.peak]), int(found.time[found.peak]) - origin_ns
        more = len(found.holders) - len(holders)
        drawn = found.name, points, left_out, found.relative, *peak
        pages.append(MemoryPage(*drawn, holders, more, found.before))
    return pages


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
    words = (
        IDLE_CAUSES if trace.host.is_op.any() else IDLE_CAUSES | {"host": NO_OPS, "launch": NO_OPS}
    )
    causes = [(cause, words[cause]) for cause in CAUSES]
    columns = {
        "start": found.start - origin_ns,
        "length": found.end - found.start,
        "cause": found.cause,
        "gpu": found.device,
    }
    return IdleTime([*causes, ("unproven", _UNPROVEN)], pack(columns, frozenset({"start"})))


MOST_MATMULS = 40  # matmuls of a table
_MATMUL_HEAD = "matmul, launches, kernel here, time here, kernel of the map, time of the map"


class MatmulMark(Struct, frozen=True):
    """Where a matmul of the trace lies in the plane."""

    m: int
    n: int
    text: str


class MatmulsOnMap(Struct, frozen=True):
    """What the script of a report draws."""

    device: str
    plane: HeatPlane
    marks: list[MatmulMark]
    head: tuple[str, ...]
    rows: list[list[str]]


def matmuls_on_map(trace: Trace) -> MatmulsOnMap | None:
    """None where the card has no map, or the trace no matmul with shapes."""
    found = table.of_device(trace.about.device)
    cases = []
    for case in trace.kernel_rows if found else ():
        if case.role == "gemm" and case.call is not None and case.launches:
            given = [each for at in range(3) if (each := case.call.tensor(at)) is not None]
            sizes, types = [each.dims for each in given], [each.type for each in given]
            if point := gemm_point(case.call.name, sizes, types, case.name):
                cases.append((point, case))
    if found is None or not cases:
        return None
    cases.sort(key=lambda each: -(each[1].ns or 0))
    usual = replace(cases[0][0], epilogue="none")
    marks = [
        MatmulMark(point.m, point.n, f"{point.text}: {case.id.short}")
        for point, case in cases
        if (point.dtype, point.layout) == (usual.dtype, usual.layout)
    ]
    table_rows = []
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
        here = [point.text, str(case.launches), case.id.short, time_text(case.median_ns)]
        table_rows.append([*here, name, took])
    head = tuple(_MATMUL_HEAD.split(", "))
    return MatmulsOnMap(found.facts.device, plane(found, usual), marks, head, table_rows)


ROWS = 6  # of where the time goes
FILTERS_GROUPS, BETWEEN = "= ", " | "  # as `web/src/core/flame.ts` reads them
NOTHING = "the trace has no step whose time a fix could shorten"
FIX = "fix_"  # before the name of a fix, where a page names what is selected


class FixCard(Struct, frozen=True):
    """A fix: what to do, why, what to write, and the step with it; `key` names it on a page.

    Without a replay there is no time of a step, and `at_most_ns` bounds the saving, where that is
    known. `label` is the word of the first screen, `after_ns` the step with the first fix as well,
    as uncertain as the more uncertain of the two.
    """

    key: str
    order: str
    why: str
    code: str
    label: str = ""
    needs: str = ""
    risk: str = ""
    ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    after_ns: float | None = None
    after_low_ns: float | None = None
    after_high_ns: float | None = None
    at_most_ns: float | None = None
    events: tuple[int, ...] = ()


class WhereRow(Struct, frozen=True):
    """Where time goes: a group, or the rest; `filter` leaves its work alone on the timeline."""

    name: str
    ns: int
    share: float
    count: int | float
    limited_by: str
    filter: str


class Basis(Struct, frozen=True):
    """What the time of one step (call, recording) is made of, and its groups."""

    per: str
    composition: Composition
    rows: list[WhereRow]


class Answers(Struct, frozen=True):
    """The three answers. `word` and `text` are the verdict, `first` and `then` the lines of the
    first screen (`first` also says that there is nothing to do), `bases` the step and the
    recording; one of them where there is only one.
    """

    word: str
    text: str
    first: str
    then: str
    cards: list[FixCard]
    bases: list[Basis]


def answers(trace: Trace, overview: Overview) -> Answers:
    """The answers of one trace."""
    look, lines = overview.look, overview.lines
    verdict = look.verdict
    word = next((line.label for line in lines if line.text == verdict.text), "UNKNOWN")
    first = next((line.text for line in lines if line.label == "DO FIRST"), verdict.first)
    first = first.replace(" (--findings)", "") or NOTHING  # that is an option of the terminal
    told = plain(verdict.text), plain(first), plain(verdict.then)
    return Answers(word.removesuffix("-BOUND"), *told, [*_cards(look)], [*_bases(trace, look)])


def _cards(look: Look) -> Iterator[FixCard]:
    """Fixes in the order of the terminal, each once; below them what only bounds a saving."""
    then = next_fix(look.fixes)
    ordered = [*look.fixes[:1], *([then] if then else [])]
    labels = dict(zip((fix.name for fix in ordered), ("DO FIRST", "THEN"), strict=False))
    ordered += [fix for fix in look.fixes if fix.name not in labels]
    for fix in ordered:
        after: tuple[float | None, float | None] = None, None
        if fix.after_ns is not None:
            after = as_uncertain(fix.after_ns, (look.fixes[0], fix))
        said = plain(fix.order), plain(fix.why), plain(fix.code), labels.get(fix.name, "")
        times = fix.ns, fix.low_ns, fix.high_ns, fix.after_ns, *after
        first, risk = plain(fix.first), plain(fix.risk)
        yield FixCard(f"{FIX}{fix.name}", *said, first, risk, *times, None, fix.events)
    if look.fixes:
        return
    orders = [text for text in (look.verdict.first, look.verdict.then) if text]
    for at, text in enumerate(orders):
        order, _, why = plain(text).partition(": ")
        row = next((row for row in look.findings if row.fix and text.startswith(row.fix)), None)
        bound = None if row is None or look.cpu else row.at_most_ns
        events = () if row is None else tuple(row.events)
        card = f"{FIX}{at}", order, why, code_in(order), ("DO FIRST", "THEN")[at]
        yield FixCard(*card, at_most_ns=bound, events=events)


def _bases(trace: Trace, look: Look) -> Iterator[Basis]:
    made = look.composition
    if made is None:
        return
    if look.cpu:
        # ops that compute are on the timeline by name
        computes = {op.name for op in look.cpu if op.does == COMPUTES}
        rows = six(cpu_groups(look.cpu))
        shown = [_where(row, row.name if row.name in computes else "") for row in rows]
        yield Basis(made.per, made, shown)
        return
    yield _basis(trace, made, look.groups)
    if made.per != RECORDING and (whole := of_recording(trace)) is not None:
        yield _basis(trace, whole, group_rows(trace))


def _basis(trace: Trace, made: Composition, groups: Sequence[GroupRow]) -> Basis:
    rows, known = six(groups), trace.grouped.names
    rest = [row.name for row in groups if row not in rows]
    names = [[row.name] if row in groups else rest for row in rows]
    filters = [
        FILTERS_GROUPS + BETWEEN.join(plain_group(name, known) for name in each) for each in names
    ]
    return Basis(made.per, made, [_where(*each) for each in zip(rows, filters, strict=True)])


def six(groups: Sequence[GroupRow]) -> list[GroupRow]:
    """Six rows at most, the rest as one."""
    return list(groups) if len(groups) <= ROWS else folded(groups, ROWS - 1)


def _where(row: GroupRow, filters: str) -> WhereRow:
    said = row.time_ns, row.share, row.count, plain(row.limited_by)
    return WhereRow(plain(row.name), *said, plain(filters))


def plain_group(shown: str, known: Sequence[str]) -> str:
    """The group of a shown name: `GEMM` of `GEMM, M=8`, `attention` of `attention (FA2)`."""
    fits = [
        name for name in known if shown == name or shown.startswith((f"{name}, M=", f"{name} ("))
    ]
    return max(fits, key=len, default=shown)
