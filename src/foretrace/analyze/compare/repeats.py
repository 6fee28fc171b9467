"""What is compared: the calls of a region, the steps, or the whole trace, in that order.

A region that all the traces have is the unit when its calls hold at least nine tenths of the GPU
work in each (of the host time, where there is no GPU work): a region around the optimizer alone
must not stand for a training step. Otherwise the unit is the step, and where one trace has no steps
the whole recording.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from foretrace.base.errors import UsageError
from foretrace.model.host import HOST_KINDS
from foretrace.model.intervals import Bools, union_length
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema import compiled

# Both recorded MLPs, the training step and the matmul have all their GPU work inside the region;
# the optimizer's region of the recorded training step has 12%. Anything between a half and nine
# tenths would do.
WHOLE = 0.9


class RepeatUnit(Struct, frozen=True):
    """What repeats: `kind` is region, step or trace; `name` is the region's, else empty."""

    kind: str
    name: str = ""

    @property
    def word(self) -> str:
        """What one repeat is called."""
        return {"region": "call", "step": "step", "trace": "run"}[self.kind]


class Repeats(Struct, frozen=True):
    """The repeats of one trace. Counts, orders and the times of single operations are those of
    `typical`: of the repeats with the kernels of most (`agreeing`), the one with the median GPU
    time, so that its parts add up to what is reported. `idle` ones launched nothing while others
    did: left out.
    """

    spans: tuple[Span, ...]
    typical: Span
    agreeing: int
    idle: int


def choose(traces: Sequence[Trace], region: str | None = None) -> RepeatUnit:
    """The unit that all the traces share."""
    groups = [trace.spans.region_groups() for trace in traces]
    if region is not None:
        for trace, found in zip(traces, groups, strict=True):
            if region not in found:
                known = ", ".join([*found][:8]) or "none"
                raise UsageError(f"{trace.path} has no region {region!r}; it has {known}")
        return RepeatUnit("region", region)
    around = [trace.spans.steps or [_whole_trace(trace)] for trace in traces]
    rows = [_held(trace, spans) for trace, spans in zip(traces, around, strict=True)]
    every = [*zip(traces, around, rows, strict=True)]
    whole = [
        name
        for name in groups[0]
        if all(name in found for found in groups)
        and not name.startswith(compiled.GRAPH)  # torch writes these; the name holds a hash
        and min(_share(*each, name) for each in every) >= WHOLE
    ]
    if whole:
        calls = {name: [found[name] for found in groups] for name in whole}
        return RepeatUnit("region", max(whole, key=lambda name: _preference(calls[name], name)))
    return RepeatUnit("step") if all(trace.spans.steps for trace in traces) else RepeatUnit("trace")


def repeats(trace: Trace, unit: RepeatUnit) -> Repeats:
    """The repeats of `unit` in one trace."""
    if unit.kind == "region":
        every = trace.spans.region_groups()[unit.name]
    else:
        every = trace.spans.steps if unit.kind == "step" else [_whole_trace(trace)]
    busy = [span for span in every if len(span.work)] or every
    kernels = (span.work[trace.gpu.is_kernel[span.work]] for span in busy)
    forms = [tuple(trace.host.name[trace.gpu.id[rows]].tolist()) for rows in kernels]
    often = Counter(forms)
    best = max(range(len(busy)), key=lambda at: (often[forms[at]], len(forms[at]), at))
    agreeing = [span for span, form in zip(busy, forms, strict=True) if form == forms[best]]
    ranked = sorted(agreeing, key=lambda span: trace.gpu.busy(span.work))
    typical = ranked[(len(ranked) - 1) // 2]
    return Repeats(tuple(busy), typical, len(agreeing), len(every) - len(busy))


def _held(trace: Trace, spans: Sequence[Span]) -> Bools:
    """Which rows of `gpu` some spans launched."""
    held = np.zeros(len(trace.gpu), np.bool_)
    for span in spans:
        held[span.work] = True
    return held


def _share(trace: Trace, around: Sequence[Span], every: Bools, name: str) -> float:
    """The part of the recording inside the calls of a region: of the steps, else of everything."""
    calls = trace.spans.region_groups()[name]
    if len(trace.gpu):
        held = np.unique(np.concatenate([span.work for span in calls]))
        return float(every[held].sum() / max(every.sum(), 1))
    total = _covered(around)
    return min(_covered(calls) / total, 1.0) if total else 0.0


def _covered(spans: Sequence[Span]) -> int:
    """Host time inside at least one of them: calls on several threads overlap."""
    starts, ends = [span.start_ns for span in spans], [span.end_ns for span in spans]
    return union_length(np.array(starts), np.array(ends))


def _preference(calls: Sequence[Sequence[Span]], name: str) -> tuple[bool, float, str]:
    """Repeated regions first, then the outermost: the one whose calls last longest."""
    lengths = sum(statistics.median(span.cpu_ns for span in spans) for spans in calls)
    return min(len(spans) for spans in calls) > 1, lengths, name


def _whole_trace(trace: Trace) -> Span:
    host = trace.host
    rows = np.flatnonzero(host.is_kind(*HOST_KINDS) & host.lasting)
    begin, end = (int(host.start[rows].min()), int(host.end[rows].max())) if len(rows) else (0, 0)
    return Span("", 0, -1, begin, end, trace.gpu.launch_order)
