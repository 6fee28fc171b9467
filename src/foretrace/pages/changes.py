"""Several traces in one page: what changed between them, which work of one stands for which work of
another, and what they are aligned by: a step or a region, at its start or at its first kernel.

Every trace is compared with the first, as `foretrace compare` does, and with the one above it in
the page, so that neighbours can be joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.tables import WORDS, Column, Line, Table, bulleted, paragraphs
from foretrace.base.terminal import plain
from foretrace.base.units import time_text
from foretrace.compare import Comparison, compare, compare_two, document, lines
from foretrace.compare.changes import WorkChange
from foretrace.compare.documents import ComparedKernel, CompareDocument
from foretrace.compare.sides import RepeatUnit, repeats
from foretrace.compare.verdict import mark_text
from foretrace.pages.page import Packed, pack
from foretrace.pages.page_tables import Bar, TableData, filled, shown
from foretrace.pages.timeline import Timeline
from foretrace.trace.arguments import json_text
from foretrace.trace.bounds import of_span
from foretrace.trace.intervals import Ints
from foretrace.trace.spans import Span
from foretrace.trace.trace import Trace

MOST_STEPS = 50  # that a list can be chosen from
MOST_REGIONS = 50
_BY_GPU = {"compute", "memory", "copy", "comms", "mixed"}


class Anchor(Struct, frozen=True):
    """For each trace where it starts and where its last GPU work ends; ns from its first event."""

    name: str
    starts: list[int]
    ends: list[int]


def anchors(
    timelines: Sequence[Timeline], traces: Sequence[Trace], unit: RepeatUnit
) -> list[Anchor]:
    """First the typical repeats that are compared, then regions and steps that all traces have.

    Where the GPU bounds the repeats, their first GPU operation comes first: when the host launched
    it decides nothing.
    """
    found = []
    for name, spans in _shared(traces, unit):
        starts, ends, begun = list[int](), list[int](), list[int]()
        for timeline, trace, span in zip(timelines, traces, spans, strict=True):
            extent, gpu = timeline.extent(trace, span), trace.gpu
            starts.append(extent.start)
            ends.append(extent.last)
            work = span.work[gpu.usable[span.work] & gpu.aligned]
            begun += [int(gpu.start[work].min()) - timeline.origin_ns] if len(work) else []
        found.append(Anchor(plain(name), starts, ends))
        if len(begun) == len(traces):
            found.append(Anchor(plain(f"{name}, first GPU operation"), begun, ends))
    typical = [repeats(trace, unit).typical for trace in traces]
    bounds = {of_span(*each) for each in zip(traces, typical, strict=True)}
    if bounds <= _BY_GPU and len(found) > 1:
        found[:2] = found[1::-1]
    return found


def _shared(traces: Sequence[Trace], unit: RepeatUnit) -> Iterator[tuple[str, list[Span]]]:
    """Steps and regions that all have, the compared one first; of a region the typical call."""
    what = {"region": unit.name, "step": "typical step", "trace": "recording"}[unit.kind]
    yield what, [repeats(trace, unit).typical for trace in traces]
    groups = [trace.spans.region_groups() for trace in traces]
    names = [name for name in groups[0] if all(name in found for found in groups)]
    for name in names[:MOST_REGIONS]:
        if name != what:
            yield name, [repeats(trace, RepeatUnit("region", name)).typical for trace in traces]
    steps = [*zip(*(trace.spans.steps for trace in traces), strict=False)]
    for index, spans in enumerate(steps[:MOST_STEPS]):
        yield f"step {index}", list(spans)


# an event's `mark` is a position in this list, -1 for what is no kernel
MARKS = ("same", "changed", "new", "gone")
_SAME, _CHANGED, _NEW, _GONE = range(4)


class Change(Struct, frozen=True):
    """A change between the typical repeats; `saved_ns` is GPU time, None where it is unknown."""

    text: str
    same: bool
    saved_ns: int | None
    saved: str


class ComparedPair(Struct, frozen=True):
    """Trace `b` compared with trace `a`, numbers of the page.

    `work` has a row for each GPU operation of both typical repeats: `change` is a place in
    `changes`, `place` one of its places, `side` 0 for `a` and 1 for `b`, `case` a place in the
    kernels of its trace, -1 for memcpys and memsets. `predicted` says what was predicted for the
    fixes that `b` has, and what was measured.
    """

    a: int
    b: int
    verdict: str
    changes: list[Change]
    work: Packed
    predicted: TableData | None
    tables: list[TableData]


class Compared(Struct, frozen=True):
    """All pairs, those with the first trace before the others, what traces are aligned by, and the
    times of all.
    """

    pairs: list[ComparedPair]
    anchors: list[Anchor]
    times: TableData


def compared(timelines: Sequence[Timeline], traces: Sequence[Trace]) -> tuple[Compared, list[Ints]]:
    """What a page shows of several traces, and the mark of every event of each.

    A kernel of the first is the same where all have it, gone where none has, else changed.
    """
    first = compare(*traces)
    with_first = [replace(first, others=()), *first.others]
    pairs = [_pair(0, b, found, timelines) for b, found in enumerate(with_first, 1)]
    for b in range(2, len(traces)):
        found = compare_two(traces[b - 1], traces[b], first.unit)
        pairs.append(_pair(b - 1, b, found, timelines))
    documents = [document(found) for found in with_first]
    against = np.stack([marks(each, traces[0], "a") for each in documents])
    agreed = (against == against[0]).all(axis=0)
    others = zip(documents, traces[1:], strict=True)
    marked = [marks(each, trace, "b") for each, trace in others]
    times = shown(lines.quantities([first, *first.others]))
    made = Compared(pairs, anchors(timelines, traces, first.unit), times)
    return made, [np.where(agreed, against[0], _CHANGED), *marked]


def _pair(a: int, b: int, found: Comparison, timelines: Sequence[Timeline]) -> ComparedPair:
    rows = [
        (change, place, side, each.row)
        for change, row in enumerate(found.work)
        for place, part in enumerate(row.places)
        for side, work in enumerate((part.a, part.b))
        for each in work
    ]
    table = np.array(rows, np.int64).reshape(-1, 4)
    columns = dict(zip(("change", "place", "side"), table.T[:3], strict=True))
    events = np.zeros((4, len(table)), np.int64)
    for number, (side, timeline) in enumerate(((found.a, timelines[a]), (found.b, timelines[b]))):
        mine, gpu = table[:, 2] == number, side.trace.gpu
        at, case = table[mine, 3], side.trace.order.case_of_work
        start = gpu.start[at] - timeline.origin_ns
        events[:, mine] = gpu.id[at], start, gpu.end[at] - gpu.start[at], case[at]
    columns |= dict(zip(("event", "start", "length", "case"), events, strict=True))
    verdict = plain(f"{found.verdict.answer.upper()}: {found.verdict.text}")
    work, predicted = pack(columns, frozenset({"event", "start"})), None
    if (mark := found.mark) is not None:
        bars = [
            Bar(mark.predicted_ns, mark.low_ns, mark.high_ns, "predicted"),
            Bar(mark.measured_ns, mark.measured_ns, mark.measured_ns, "measured"),
        ]
        times = [("predicted", mark.predicted_ns), ("measured", mark.measured_ns)]
        heads = Column("", lambda row: row[0], WORDS), Column("step", lambda row: row[1], "ns")
        told = Table("", heads, times, lines=[Line("PREDICTED", mark_text(mark))])
        predicted = shown(told, bars=bars, base=mark.before_ns)
    changes = [_change(row) for row in found.work]
    return ComparedPair(a, b, verdict, changes, work, predicted, _tables(a, b, found))


def _change(row: WorkChange) -> Change:
    saved, text = None if None in (row.ns_a, row.ns_b) else row.saved_ns, "time unknown"
    if saved is not None:
        sign = "−" if saved > 0 else "+"
        text = f"{sign}{time_text(abs(saved))}" if saved else ""
    return Change(plain(row.text), row.fate == "same", saved, text)


_SIGNS = {"changed": "≠ changed", "added": "+ added", "removed": "− removed", "same": "= same"}


def _tables(a: int, b: int, found: Comparison) -> list[TableData]:
    """What changed in sentences, and every kernel, which leads to its first launch."""
    told = document(found)
    kernels, worth = told.kernels, found.worth.text
    fused = [
        f"{row.kernel} takes the place of {', '.join(row.replaces)}"
        + ("" if row.ns_saved is None else f" and saves {time_text(row.ns_saved)}")
        for row in told.fusions
    ]
    said = [
        paragraphs("", *([worth] if worth else [])),
        bulleted("Changed", found.changed),
        bulleted("Unchanged (within the noise)", found.unchanged),
        bulleted("Fused", fused),
    ]
    rows, to = list[tuple[str, ComparedKernel]](), list[str]()
    for state in _SIGNS:
        trace, gpu = (b, found.b.trace.gpu) if state == "added" else (a, found.a.trace.gpu)
        own = [row.kernel for row in getattr(found.kernels, state)]
        rows += [(state, row) for row in getattr(kernels, state)]
        to += [f"event {trace}.{gpu.id[row.row]}" for row in own if row.is_kernel]
    columns = (
        Column("kernel", lambda row: row[1].kernel.short or row[1].kernel.name, WORDS),
        Column("state", lambda row: _SIGNS[row[0]], WORDS),
        Column("op", lambda row: row[1].kernel.op, WORDS, first=False),
        Column("A", lambda row: row[1].a),
        Column("B", lambda row: row[1].b),
        Column("median A", lambda row: row[1].median_ns.a, "ns"),
        Column("median B", lambda row: row[1].median_ns.b, "ns"),
        Column("why", lambda row: "; ".join(row[1].why or ()), WORDS),
    )
    table = Table("Kernels of a typical repeat, side by side", columns, rows)
    return [*filled(said), shown(table, to=to)]


def marks(found: CompareDocument, trace: Trace, side: str) -> Ints:
    """The mark of every event of one side; a kernel is known by name, grid and block."""
    known = {}
    for row in chain(found.kernels.changed, found.kernels.same):
        shown = row.to if side == "b" and row.to else row
        mark = _CHANGED if row.to else _SAME
        known[shown.kernel.name, shown.config.grid, shown.config.block] = mark
    otherwise = _GONE if side == "a" else _NEW
    frame = trace.kernels.select("id", "name", "grid", "block")
    by_event = np.full(trace.host.count, -1, np.int64)
    by_event[frame["id"].to_numpy()] = [
        known.get((name, grid and json_text(grid), block and json_text(block)), otherwise)
        for name, grid, block in frame.drop("id").iter_rows()
    ]
    return by_event
