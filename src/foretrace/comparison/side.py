"""What one trace brings to a comparison: its repeats measured, and the kernels, copies and ops of a
typical one.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretrace.comparison.launched import Kernel, launched
from foretrace.comparison.measure import Sample, sample
from foretrace.comparison.repeats import Repeats, Unit, repeats
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema import compiled

# GPU times of NVIDIA cards move in steps of 32 ns (all 4,701 kernels of the recorded training step
# lie within 2 ns of a multiple); older Kineto wrote whole microseconds.
TICK_NS, COARSE_TICK_NS = 32, 1000


@dataclass(frozen=True, slots=True)
class Copy:
    """Memcpys or memsets of one name and size in a typical repeat."""

    name: str
    bytes: int | None
    count: int
    ns: float | None
    is_memset: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One trace of a comparison."""

    trace: Trace
    unit: Unit
    repeats: Repeats
    gpu: Sample
    cpu: Sample
    wall: Sample
    idle: Sample
    pace: Sample
    kernels: tuple[Kernel, ...]
    copies: tuple[Copy, ...]
    ops: Mapping[str, int]
    op_ns: Mapping[str, float]
    launches: int

    @property
    def memcpys(self) -> int:
        return sum(copy.count for copy in self.copies if not copy.is_memset)

    @property
    def memsets(self) -> int:
        return sum(copy.count for copy in self.copies if copy.is_memset)


def side(trace: Trace, unit: Unit, launch: Sequence[str]) -> Side:
    """Measure the repeats of `unit` in one trace; `launch` are the parts of a launch that both
    traces record.
    """
    found = repeats(trace, unit)
    tick = COARSE_TICK_NS if trace.ledger.count("ts_precision") else TICK_NS
    times = [_times(trace, span) for span in found.spans]
    gpu, cpu, wall, idle, pace = (sample([row[at] for row in times], tick) for at in range(5))
    kernels = launched(trace, found, tick, launch)
    return Side(
        trace,
        unit,
        found,
        gpu,
        cpu,
        wall,
        idle,
        pace,
        kernels,
        _copies(trace, found),
        _op_counts(trace, found.typical),
        _op_times(trace, found.spans),
        _launches(trace, found.typical),
    )


def _times(trace: Trace, span: Span) -> tuple[int | None, ...]:
    """GPU busy, host, wall, GPU idle and pace of one repeat.

    Wall runs from the start of the repeat to the end of its host range or of its GPU work,
    whichever is later. Pace is the larger of host and GPU time: calls made one after the other
    cannot follow each other faster.
    """
    gpu = trace.gpu
    usable = span.work[gpu.usable[span.work]]
    host = span.cpu_ns if span.end_ns > span.start_ns else None
    if not len(gpu):
        return None, host, host, None, host
    if len(span.work) > len(usable):
        return None, host, None, None, None  # GPU work without a time
    busy = gpu.busy(usable)
    starts = [span.start_ns] if host is not None else gpu.start[usable].tolist()
    ends = [*([span.end_ns] if host is not None else []), *gpu.end[usable].tolist()]
    wall = max(ends) - min(starts) if starts and ends else None
    return busy, host, wall, gpu.span(usable) - busy, max(busy, host or 0)


def _copies(trace: Trace, found: Repeats) -> tuple[Copy, ...]:
    """Memcpys and memsets of a typical repeat, by name and size, in the order of the first of each."""
    gpu, frame = trace.gpu, trace.copies
    facts = {row[0]: row[1:] for row in frame.select("id", "name", "bytes", "dur_ns").iter_rows()}
    lengths: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
    for span in found.spans:
        for event in gpu.id[span.work[~gpu.is_kernel[span.work]]].tolist():
            name, size, length = facts[event]
            if length is not None:
                lengths[name, size].append(length)
    typical = found.typical.work[~gpu.is_kernel[found.typical.work]]
    counts = Counter(facts[event][:2] for event in gpu.id[typical].tolist())
    memsets = {facts[event][0] for event in gpu.id[typical[gpu.is_memset[typical]]].tolist()}
    return tuple(
        Copy(
            key[0],
            key[1],
            count,
            statistics.median(lengths[key]) if lengths[key] else None,
            key[0] in memsets,
        )
        for key, count in counts.items()
    )


def _inside(trace: Trace, span: Span, wanted: Any) -> Any:
    """The wanted host events that begin inside a span."""
    host = trace.host
    inside = (
        wanted
        & host.lasting
        & (host.start >= span.start_ns)
        & (host.start < max(span.end_ns, span.start_ns + 1))
    )
    if span.event >= 0:
        inside &= host.namespace == host.namespace[span.event]
    return np.flatnonzero(inside)


def _rows_of_ops(trace: Trace) -> Any:
    """Ops, and the ranges that torch.compile writes around the graphs it calls."""
    return trace.host.is_op | (
        trace.host.is_region & trace.host.named(lambda name: name.startswith(compiled.GRAPH))
    )


def _op_counts(trace: Trace, span: Span) -> dict[str, int]:
    rows = _inside(trace, span, _rows_of_ops(trace))
    return dict(
        Counter(
            compiled.label(trace.host.names[number]) for number in trace.host.name[rows].tolist()
        )
    )


def _op_times(trace: Trace, spans: Iterable[Span]) -> dict[str, float]:
    """Per op name the host time of its own (no callee's) in one repeat, the median over the
    repeats.
    """
    host, wanted, seen = trace.host, _rows_of_ops(trace), []
    for span in spans:
        spent: Counter[str] = Counter()
        rows = _inside(trace, span, wanted)
        for number, length in zip(
            host.name[rows].tolist(), host.self_length[rows].tolist(), strict=True
        ):
            spent[compiled.label(host.names[number])] += length
        seen.append(spent)
    names = {name for spent in seen for name in spent}
    return {name: statistics.median(spent[name] for spent in seen) for name in names}


def _launches(trace: Trace, span: Span) -> int:
    return len(_inside(trace, span, trace.host.is_launch))
