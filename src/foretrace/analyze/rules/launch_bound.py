"""Steps that are host-bound.

What it shows: steps in which the GPU is idle for more than half of the time because the host does
not issue work fast enough: how many launches a step has, how far apart they are, how long a kernel
takes, and how often the GPU had nothing queued when a launch came.

Why it matters: faster kernels gain nothing here. Larger batches, fewer and larger kernels, or a
CUDA graph do: a graph replays all kernels of a step with one launch
(`torch.compile(mode="reduce-overhead")`). A step can never be shorter than its GPU time.

How it is computed: idle time of the step with the median idle time, in gaps below 3 ms that began
with the host inside or between ops, up to the launch that ended them (`foretrace.model.idle`). Idle
time while launched work waits in the queue does not count. Neither does time in which the host made
launches that have no GPU event: those were captured into a graph, or their events were lost. Steps
whose GPU time comes from graph launches are left out. What a graph saves is predicted by the fix
`cuda_graph`.

When it is wrong: the profiler lengthens every op and launch, so a step that is host-bound in the
trace may be less so without it; only a run record tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyze.rules._common import counted, each, ids, per
from foretrace.analyze.rules._idle import host_note, limited, ranges, typical_idle, untold
from foretrace.analyze.rules.graph_launches import graph_rows
from foretrace.base.arrays import distinct
from foretrace.base.units import percent_text, plural, time_text
from foretrace.model import bounds
from foretrace.model.idle import unproven
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

# The longest gap between two ops of the recorded H200 steps is 2.5 ms. Beyond that the host does
# something else than issuing ops: it loads data, compiles, or sets a library up.
ISSUING_NS = 3_000_000
MOSTLY = 0.5


def _check(trace: Trace) -> Iterator[Finding]:
    if nothing := untold(trace, RULE):
        yield nothing
        return
    idle, busy = typical_idle(trace), _busy(trace)
    proven = ~unproven(trace, idle) & ~idle.of("queue")
    starving = proven & idle.of("launch", "host") & (idle.length < ISSUING_NS)
    total, slow = (limited(trace, idle.length[part].sum()) for part in (proven, starving))
    idle_share = total / max(total + busy, 1)
    if idle_share <= bounds.MOSTLY_IDLE or slow < MOSTLY * total or _by_graphs(trace):
        return
    launches, seen = _launches(trace)
    count = f"{plural(seen['launches'], 'launch', 'launches')} {per(trace)}"
    unit = "a step" if trace.order.steps else "the recording"
    title = f"{count}; {unit} cannot go below its {time_text(busy)} of GPU time"
    detail = (
        f"{_medians(seen)}The GPU was idle before {percent_text(seen['empty_queue_share'])} of its "
        f"kernels. {host_note(trace)}"
    )
    evidence: dict[str, Any] = seen | {"busy_ns": busy, "idle_share": round(idle_share, 4)}
    gaps = ranges(idle.only(starving))
    yield Finding(RULE.name, "found", title, detail, evidence, ids(launches), ranges=gaps)


def _busy(trace: Trace) -> int:
    """GPU time of a step, or of the recording."""
    if trace.order.steps:
        return round(trace.spans.median_busy(trace.spans.steps) or 0)
    return trace.gpu.busy(np.arange(len(trace.gpu)))


def _by_graphs(trace: Trace) -> bool:
    """Whether graph launches already bring most of the GPU time."""
    length = trace.gpu.length
    return int(length[graph_rows(trace)].sum()) > MOSTLY * int(length[counted(trace)].sum())


def _medians(seen: dict[str, Any]) -> str:
    if seen["launch_interval_ns"] is None:
        return ""
    apart, length = time_text(seen["launch_interval_ns"]), time_text(seen["kernel_ns"])
    return f"Launches are {apart} apart, kernels take {length} (medians). "


def _launches(trace: Trace) -> tuple[Ints, dict[str, Any]]:
    """The calls that launch kernels: how many, how far apart, how often into an empty queue."""
    gpu, order, idle = trace.gpu, trace.order, trace.gaps.every
    rows = np.flatnonzero(counted(trace) & gpu.is_kernel & (gpu.launch >= 0))
    timed = rows[gpu.usable[rows]]
    ended = np.zeros(len(gpu), bool)
    ended[idle.then[idle.of("launch", "host") & (idle.then >= 0)]] = True
    launches = distinct(gpu.launch[rows])
    apart, length = _apart(trace, launches), order.length[order.counts]
    return launches, {
        "launches": each(trace, len(launches)),
        "kernels": each(trace, int(order.counts.sum())),
        "launch_interval_ns": int(np.median(apart)) if len(apart) else None,
        "kernel_ns": int(np.median(length)) if len(length) else 0,
        "empty_queue_share": round(float(ended[timed].mean()), 4) if len(timed) else 0.0,
    }


def _apart(trace: Trace, launches: Ints) -> Ints:
    """Distances between launches of the same step, as the verdict counts them."""
    start = np.sort(trace.host.start[launches])
    step = np.searchsorted([span.start_ns for span in trace.spans.steps], start, side="right")
    apart: Ints = np.diff(start)[np.diff(step) == 0]
    return apart


RULE = Rule(
    "launch_bound",
    "Steps that are host-bound",
    _check,
    ("gpu", "launches", "clock"),
    fixes=("cuda_graph",),
)
