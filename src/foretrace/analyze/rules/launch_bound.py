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
whose GPU time comes from graph launches already do what this rule advises. The saving is at most
that idle time, and at most what the run record beside the trace leaves of it. A graph is advised
where that is more than the 105 us that a call in this mode costs itself.

When it is wrong: the profiler lengthens every op and launch, so a step that is host-bound in the
trace may be less so without it; only a run record tells. Graphs need fixed shapes and addresses,
which the trace does not tell, and no synchronization inside.
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
# What a call in mode="reduce-overhead" costs on the host itself: on an H200 matmul + add takes 66
# us compiled, and 109 us with it, of which 4 us are GPU time.
GRAPH_NS = 105_000
MOSTLY = 0.5


def _check(trace: Trace) -> Iterator[Finding]:
    if nothing := untold(trace, RULE):
        yield nothing
        return
    idle, busy = typical_idle(trace), _busy(trace)
    proven = ~unproven(trace, idle) & ~idle.of("queue")
    starving = proven & idle.of("launch", "host") & (idle.length < ISSUING_NS)
    total, saved = (limited(trace, idle.length[part].sum()) for part in (proven, starving))
    idle_share = total / max(total + busy, 1)
    if idle_share <= bounds.MOSTLY_IDLE or saved < MOSTLY * total or _by_graphs(trace):
        return
    launches, seen = _launches(trace)
    count = f"{plural(seen['launches'], 'launch', 'launches')} {per(trace)}"
    unit = "a step" if trace.order.steps else "the recording"
    title = f"{count}; {unit} cannot go below its {time_text(busy)} of GPU time"
    graph = seen["kernels"] > 1 and saved > GRAPH_NS
    advice = "A CUDA graph replays the kernels of a step with one launch and"
    if not graph:
        advice = "More work in one launch, or fewer ops before it,"
    detail = (
        f"{_medians(seen)}The GPU was idle before {percent_text(seen['empty_queue_share'])} of its "
        f"kernels. {advice} saves at most {time_text(saved)} {per(trace)}. {host_note(trace)}"
    )
    evidence: dict[str, Any] = seen | {"busy_ns": busy, "idle_share": round(idle_share, 4)}
    shapes = " for fixed shapes" if _varies(trace) else ""
    fix = f'CUDA graph{shapes} (mode="reduce-overhead")' if graph else ""
    found = (RULE.name, "found", title, detail, evidence, ids(launches), saved, fix)
    yield Finding(*found, ranges(idle.only(starving)))


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


def _varies(trace: Trace) -> bool:
    """Whether no two steps launch the same kernels with the same shapes."""
    order, step = trace.order, trace.spans.step_of_work()[trace.order.row]
    rows = np.lexsort((order.case, step))
    rows = rows[step[rows] >= 0]
    cuts = np.flatnonzero(np.diff(step[rows])) + 1
    steps = [mine.tobytes() for mine in np.split(order.case[rows], cuts) if len(mine)]
    return len(steps) > 1 and len(set(steps)) == len(steps)


RULE = Rule("launch_bound", "Steps that are host-bound", _check, ("gpu", "launches", "clock"))
