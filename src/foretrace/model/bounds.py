"""What a stretch of time is bound by: host, arithmetic, memory, communication, several, or unknown.

A kernel's bound comes from the roofline (`costs.position`): compute or memory when it comes near
that roof, mixed near both, comms for collectives, unknown where neither roof explains its time or
its cost is not known. Copies and fills are memory-bound.

A step, or a call of a region, runs from its start on the host to its end there or to the end of its
last GPU work, whichever is later. It is bound by

    overhead   when the GPUs it uses are idle for more than half of that time: the host, or what the
               host waits for, decides how long it takes. Work of earlier steps counts as busy: a
               host that runs ahead keeps the GPU fed.
    compute, memory, comms
               else, when kernels of that bound take at least 60% of its GPU time
    unknown    when it launched nothing, or more than 40% of its GPU time is in kernels whose bound
               is not known
    mixed      in all other cases

A region that is called several times has the bound that most of its calls have. The profiler itself
slows the host down, so a stretch near the limit may be bound by overhead in the recording alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from foretrace.model.intervals import Ints
from foretrace.model.spans import Span

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

BOUNDS = ("overhead", "compute", "memory", "comms", "mixed", "unknown")
# More idle than busy: whatever the kernels do, making them faster cannot even halve the time. On
# the recorded H200 traces matmul + add is idle for 95 to 99% of a step at size 64 and for 2% at
# size 4096 (38% in the cold first step), the eager MLP for 28 to 53%, the Llama training step for
# 73 to 75%.
OVERHEAD_IDLE = 0.5
# One kind of bound explains a stretch when kernels of that bound take this share of its GPU time.
# In the recorded eager MLP the three products take 70% of it; where two kinds share it evenly
# neither explains it.
DOMINANT = 0.6


def of_span(trace: Trace, span: Span) -> str:
    """The bound of one step or region call."""
    if not len(span.work):
        return "unknown"
    if idle_share(trace, span) > OVERHEAD_IDLE:
        return "overhead"
    return of_work(trace, span.work)


def of_spans(trace: Trace, spans: list[Span]) -> str:
    """The bound that most of the calls have."""
    votes = Counter(of_span(trace, span) for span in spans)
    return min(votes, key=lambda bound: (-votes[bound], bound)) if votes else "unknown"


def idle_share(trace: Trace, span: Span) -> float:
    """Share of the stretch in which the GPUs it uses were idle; the mean over several GPUs."""
    gpu = trace.gpu
    usable = span.work[gpu.usable[span.work]]
    if not len(usable):
        return 1.0
    begin, end = span.start_ns, max(span.end_ns, int(gpu.end[usable].max()))
    devices = np.unique(gpu.device_number[usable]).tolist()
    edges = np.array([begin, end])
    busy = sum(int(np.diff(trace.busy[device].up_to(edges))[0]) for device in devices)
    return 1.0 - busy / (max(end - begin, 1) * len(devices))


def of_work(trace: Trace, rows: Ints) -> str:
    """The bound of some GPU work by the time that each kind of bound takes, idle time aside."""
    kinds, length = trace.work_bounds[rows], trace.gpu.length[rows]
    time = {bound: int(length[kinds == bound].sum()) for bound in BOUNDS}
    total = sum(time.values())
    if not total:
        return "unknown"
    most = max(BOUNDS, key=lambda bound: time[bound])
    if time[most] >= DOMINANT * total:
        return most
    return "unknown" if time["unknown"] > total * (1 - DOMINANT) else "mixed"
