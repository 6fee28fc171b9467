"""A trace as every document names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.schema.documents.look import TraceEntry

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def trace_entry(trace: Trace) -> TraceEntry:
    """Where the trace comes from, and its size."""
    about, spans = trace.about, trace.spans
    return TraceEntry(
        path=trace.path,
        source=trace.source,
        device=about.device,
        arch=about.arch,
        rank=about.rank,
        events=trace.event_count,
        steps=len(spans.steps),
        regions=len(spans.region_groups()),
    )
