"""What a stretch of time is bound by: the host, arithmetic, memory, communication, a mixture, or nothing that can be told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from .intervals import union_length
from .spans import Span

if TYPE_CHECKING:
    from .trace import Trace

# The GPU is idle for more than half of the stretch: the host (or what it waits for) decides its length. On the recorded H200
# traces matmul + add is 99% idle at size 64 and 3% idle at size 4096; nothing recorded lies near one half by accident.
OVERHEAD_IDLE = 0.5
# One kind of bound explains a stretch when kernels of that bound take this share of its GPU time.
DOMINANT = 0.6


def of_span(trace: Trace, span: Span) -> str:
    """The bound of one step or region call."""
    if not len(trace.gpu) or not len(span.work):
        return "unknown"
    if idle_share(trace, span) > OVERHEAD_IDLE:
        return "overhead"
    return _of_kernels(trace, span.work.tolist())


def of_spans(trace: Trace, spans: list[Span]) -> str:
    """The bound that most of the calls have."""
    votes = Counter(of_span(trace, span) for span in spans)
    return min(votes, key=lambda bound: (-votes[bound], bound)) if votes else "unknown"


def idle_share(trace: Trace, span: Span) -> float:
    """Share of the stretch in which no GPU work ran, from its start to the end of its last GPU work.

    Work of earlier steps counts as busy: a host that runs ahead keeps the GPU fed, and that is no idle time.
    """
    gpu = trace.gpu
    usable = span.work[gpu.usable[span.work]]
    if not len(usable):
        return 1.0
    begin, end = span.start_ns, max(span.end_ns, int(gpu.end[usable].max()))
    near = np.flatnonzero(gpu.usable & (gpu.end > begin) & (gpu.start < end))
    busy = union_length(np.maximum(gpu.start[near], begin), np.minimum(gpu.end[near], end))
    last = int(gpu.end[usable].max())
    window = max(last - begin, 1) if last >= span.end_ns else max(end - begin, 1)
    return max(1.0 - busy / window, 0.0)


def _of_kernels(trace: Trace, rows: list[int]) -> str:
    time: Counter[str] = Counter()
    for row in rows:
        time[trace.work_bounds[row]] += int(trace.gpu.length[row])
    total = sum(time.values())
    if not total:
        return "unknown"
    bound, most = max(time.items(), key=lambda item: (item[1], item[0]))
    if most >= DOMINANT * total:
        return bound
    return "unknown" if time["unknown"] > total * (1 - DOMINANT) else "mixed"
