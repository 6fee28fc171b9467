"""One trace of a comparison: its repeats measured, and what a typical one launches and calls."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from foretrace.comparison.launched import Kernel, launched
from foretrace.comparison.measure import Sample, sample
from foretrace.comparison.ops import OpCalls, host_ops, started_inside
from foretrace.comparison.repeats import Repeats, Unit, repeats
from foretrace.model.spans import Span
from foretrace.model.trace import Trace

# GPU times of NVIDIA cards move in steps of 32 ns (all 4,701 kernels of the recorded training step
# lie within 2 ns of a multiple); older Kineto wrote whole microseconds.
TICK_NS, COARSE_TICK_NS = 32, 1000


class Copy(Struct, frozen=True):
    """Memcpys or memsets of one name and size in a typical repeat; `ns` is the time of one."""

    name: str
    bytes: int | None
    count: int
    ns: float | None
    is_memset: bool


class Side(Struct, frozen=True):
    """One trace of a comparison; counts are those of a typical repeat."""

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
    ops: Mapping[str, OpCalls]
    launches: int

    @property
    def memcpys(self) -> int:
        """Memcpys of a typical repeat."""
        return sum(copy.count for copy in self.copies if not copy.is_memset)

    @property
    def memsets(self) -> int:
        """Memsets of a typical repeat."""
        return sum(copy.count for copy in self.copies if copy.is_memset)


def side(trace: Trace, unit: Unit, launch: Sequence[str]) -> Side:
    """Measure the repeats of `unit`; `launch` are the parts of a launch that both traces record."""
    found = repeats(trace, unit)
    tick = COARSE_TICK_NS if trace.ledger.count("ts_precision") else TICK_NS
    times = [_times(trace, span) for span in found.spans]
    gpu, cpu, wall, idle, pace = (sample(values, tick) for values in zip(*times, strict=True))
    kernels, copies = launched(trace, found, tick, launch), _copies(trace, found)
    ops = host_ops(trace, found, kernels)
    launches = len(started_inside(trace, found.typical, trace.host.is_launch))
    return Side(trace, unit, found, gpu, cpu, wall, idle, pace, kernels, copies, ops, launches)


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
    """Memcpys and memsets of a typical repeat by name and size, in order of appearance."""
    gpu = trace.gpu
    columns = trace.copies.select("id", "name", "bytes", "dur_ns")
    known = {row[0]: row[1:] for row in columns.iter_rows()}

    def copies_of(span: Span) -> list[int]:
        events: list[int] = gpu.id[span.work[~gpu.is_kernel[span.work]]].tolist()
        return events

    lengths: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
    for event in (event for span in found.spans for event in copies_of(span)):
        name, size, length = known[event]
        if length is not None:
            lengths[name, size].append(length)
    typical = found.typical.work
    memsets = {known[event][0] for event in gpu.id[typical[gpu.is_memset[typical]]].tolist()}
    counts = Counter(known[event][:2] for event in copies_of(found.typical))
    medians = {key: statistics.median(values) for key, values in lengths.items()}
    return tuple(
        Copy(name, size, count, medians.get((name, size)), name in memsets)
        for (name, size), count in counts.items()
    )
