"""What several traces are aligned by: a step or a region, at its start or at its first kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from foretrace.analyze.compare.sides import RepeatUnit, repeats
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.show.html.timeline import Timeline
from foretrace.show.render.safe import plain

MOST_STEPS = 50  # that a list can be chosen from
MOST_REGIONS = 50


class Anchor(Struct, frozen=True):
    """For each trace where it starts and where its last GPU work ends; ns from its first event."""

    name: str
    starts: list[int]
    ends: list[int]


def anchors(
    timelines: Sequence[Timeline], traces: Sequence[Trace], unit: RepeatUnit
) -> list[Anchor]:
    """First the typical repeats that are compared, then regions and steps that all traces have."""
    found = []
    for name, spans in _shared(traces, unit):
        extents = [
            timeline.extent(trace, span)
            for timeline, trace, span in zip(timelines, traces, spans, strict=True)
        ]
        ends = [extent.last for extent in extents]
        found.append(Anchor(plain(name), [extent.start for extent in extents], ends))
        first = [_first(*each) for each in zip(timelines, traces, spans, strict=True)]
        begun = [start for start in first if start is not None]
        if len(begun) == len(traces):
            found.append(Anchor(plain(f"{name}, first GPU operation"), begun, ends))
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


def _first(timeline: Timeline, trace: Trace, span: Span) -> int | None:
    """When the first GPU work of a span begins."""
    gpu = trace.gpu
    work = span.work[gpu.usable[span.work] & gpu.aligned]
    return int(gpu.start[work].min()) - timeline.origin_ns if len(work) else None
