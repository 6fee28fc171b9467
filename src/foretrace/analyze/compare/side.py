"""One trace of a comparison: its repeats measured, and what a typical one launches and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from foretrace.analyze.compare.launched import Kernel, launched
from foretrace.analyze.compare.measure import Sample, sample
from foretrace.analyze.compare.ops import OpCalls, host_ops, started_inside
from foretrace.analyze.compare.repeats import Repeats, RepeatUnit, repeats
from foretrace.model.spans import Span
from foretrace.model.trace import Trace

# GPU times of NVIDIA cards move in steps of 32 ns (all 4,701 kernels of the recorded training step
# lie within 2 ns of a multiple); older Kineto wrote whole microseconds.
TICK_NS, COARSE_TICK_NS = 32, 1000


class Side(Struct, frozen=True):
    """One trace of a comparison; `work` and counts are those of a typical repeat."""

    trace: Trace
    unit: RepeatUnit
    repeats: Repeats
    gpu: Sample
    cpu: Sample
    wall: Sample
    idle: Sample
    pace: Sample
    work: tuple[Kernel, ...]
    ops: Mapping[str, OpCalls]
    launches: int

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Kernels of a typical repeat, in launch order."""
        return tuple(each for each in self.work if each.is_kernel)

    @property
    def memcpys(self) -> int:
        """Memcpys of a typical repeat."""
        return sum(each.role == "memcpy" for each in self.work)

    @property
    def memsets(self) -> int:
        """Memsets of a typical repeat."""
        return sum(each.role == "memset" for each in self.work)


def side(trace: Trace, unit: RepeatUnit, launch: Sequence[str]) -> Side:
    """Measure the repeats of `unit`; `launch` are the parts of a launch that both traces record."""
    found = repeats(trace, unit)
    tick = COARSE_TICK_NS if trace.ledger.count("ts_precision") else TICK_NS
    times = [_times(trace, span) for span in found.spans]
    gpu, cpu, wall, idle, pace = (sample(values, tick) for values in zip(*times, strict=True))
    work = launched(trace, found, tick, launch)
    ops = host_ops(trace, found, [each for each in work if each.is_kernel])
    launches = len(started_inside(trace, found.typical, trace.host.is_launch))
    return Side(trace, unit, found, gpu, cpu, wall, idle, pace, work, ops, launches)


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
    wall = max(ends) - min(starts) if starts and ends and gpu.aligned else None
    pace = max(busy, host) if host is not None else None
    return busy, host, wall, gpu.span(usable) - busy, pace
