"""Several traces in one page: what changed between them, which work of one stands for which work of
another, and what they are aligned by: a step or a region, at its start or at its first kernel.

Every trace is compared with the first, as `foretrace compare` does, and with the one above it in
the page, so that neighbours can be joined.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import replace

from foretrace.base.terminal import plain
from foretrace.compare import Comparison, compare, compare_two, document
from foretrace.compare.documents import ComparedKernels, CompareDocument
from foretrace.compare.sides import RepeatUnit, repeats
from foretrace.compare.verdict import mark_text
from foretrace.pages.page import Packed, pack
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


class ComparedPair(Struct, frozen=True):
    """Trace `b` compared with trace `a`, numbers of the page; `document` is that of `compare`.

    `work` has a row for each GPU operation of both typical repeats: `change` is a place in
    `document.work`, `place` one of its places, `side` 0 for `a` and 1 for `b`, `case` a place in
    the kernels of its trace, -1 for memcpys and memsets. `first` says for each kernel of
    `document.kernels`, by list, which event is its first launch: of `a`, else of `b`. `predicted`
    says what was predicted for the fixes that `b` has, and what was measured; "" without any.
    """

    a: int
    b: int
    document: CompareDocument
    work: Packed
    first: dict[str, list[int]]
    predicted: str = ""


class Compared(Struct, frozen=True):
    """All pairs, those with the first trace before the others, and what traces are aligned by."""

    pairs: list[ComparedPair]
    anchors: list[Anchor]


def compared(timelines: Sequence[Timeline], traces: Sequence[Trace]) -> Compared:
    """What a page shows of several traces."""
    first = compare(*traces)
    with_first = [replace(first, others=()), *first.others]
    pairs = [_pair(0, b, found, timelines) for b, found in enumerate(with_first, 1)]
    for b in range(2, len(traces)):
        found = compare_two(traces[b - 1], traces[b], first.unit)
        pairs.append(_pair(b - 1, b, found, timelines))
    return Compared(pairs, anchors(timelines, traces, first.unit))


def _pair(a: int, b: int, found: Comparison, timelines: Sequence[Timeline]) -> ComparedPair:
    shown, first = document(found), dict[str, list[int]]()
    for name in ComparedKernels.__struct_fields__:
        gpu = (found.b if name == "added" else found.a).trace.gpu
        kernels = [each.kernel for each in getattr(found.kernels, name)]
        first[name] = [int(gpu.id[each.row]) for each in kernels if each.is_kernel]
    # a report travels: the folder it was made in stays behind
    sides = [replace(each, path=plain(os.path.basename(each.path))) for each in (shown.a, shown.b)]
    shown = replace(shown, a=sides[0], b=sides[1], others=UNSET)
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
    work, mark = pack(columns, frozenset({"event", "start"})), found.mark
    return ComparedPair(a, b, shown, work, first, mark_text(mark) if mark else "")


def all_marks(found: Compared, traces: Sequence[Trace]) -> list[Ints]:
    """The mark of every event of every trace: of the first against all others, of these against it.

    A kernel of the first is the same where all have it, gone where none has, else changed.
    """
    with_first = [pair.document for pair in found.pairs if pair.a == 0]
    against = np.stack([marks(each, traces[0], "a") for each in with_first])
    agreed = (against == against[0]).all(axis=0)
    first = np.where(agreed, against[0], _CHANGED)
    others = zip(with_first, traces[1:], strict=True)
    return [first, *(marks(each, trace, "b") for each, trace in others)]


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
