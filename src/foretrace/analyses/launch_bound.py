"""Steps that are host-bound.

What it shows: steps in which the GPU is idle for more than half of the time because the host does
not issue work fast enough: how many kernels a step has, how long they are, how far apart their
launches are, and how often the GPU had nothing queued when a launch came.

Why it matters: faster kernels gain nothing here. Larger batches, fewer and larger kernels, or a
CUDA graph do: a graph replays all kernels of a step with one launch
(`torch.compile(mode="reduce-overhead")`). A step can never be shorter than its GPU time.

How it is computed: the bound of the steps (see `foretrace.model.bounds`), and idle time that began
with the host inside or between ops. The saving is at most that idle time: a graph without any gap
would leave the GPU time alone.

When it is wrong: the profiler lengthens every op and launch, so a step that is launch-bound in the
trace may be less so without it. Graphs need fixed shapes and addresses, which the trace does not
tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from foretrace.analyses._common import counted, each, ids, per
from foretrace.model import bounds
from foretrace.model.intervals import Bools, Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import percent_text, plural, time_text


def _check(trace: Trace) -> Iterator[Finding]:
    idle, order = trace.idle, trace.order
    starving = idle.of("launch", "host")
    starved, total = int(idle.length[starving].sum()), int(idle.length.sum())
    if not idle.window_ns or total / idle.window_ns <= bounds.MOSTLY_IDLE or starved < total / 2:
        return
    saved, busy = order.per_step(starved), order.per_step(idle.window_ns - total)
    launches, seen = _launches(trace, starving)
    count = f"{plural(seen['launches'], 'launch', 'launches')} {per(trace)}"
    how = "without the host ops before them" if seen["launches"] <= 1 else "with one launch"
    title = f"Host-bound: {count} for {time_text(busy)} of GPU time"
    detail = (
        f"{_medians(seen)}The GPU was idle before {percent_text(seen['empty_queue_share'])} of "
        f"its operations. A CUDA graph would replay them {how} and save at most {time_text(saved)} "
        f"{per(trace)}. The GPU time itself is {time_text(busy)}."
    )
    evidence = seen | {"busy_ns": busy, "idle_share": round(total / idle.window_ns, 4)}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(launches), saved)


def _medians(seen: dict[str, Any]) -> str:
    if seen["launch_interval_ns"] is None:
        return ""
    apart, length = time_text(seen["launch_interval_ns"]), time_text(seen["kernel_ns"])
    return f"Launches are {apart} apart, kernels take {length} (medians). "


def _launches(trace: Trace, starving: Bools) -> tuple[Ints, dict[str, Any]]:
    """The launching calls: how many, how far apart, how often into an empty queue."""
    gpu, order = trace.gpu, trace.order
    rows = np.flatnonzero(counted(trace) & gpu.usable & (gpu.launch >= 0))
    ended = np.zeros(len(gpu), bool)
    ended[trace.idle.then[starving & (trace.idle.then >= 0)]] = True
    launches = np.unique(gpu.launch[rows])
    apart, length = np.diff(np.sort(trace.host.start[launches])), order.length[order.counts]
    return launches, {
        "launches": each(trace, len(launches)),
        "kernels": each(trace, int(order.counts.sum())),
        "launch_interval_ns": int(np.median(apart)) if len(apart) else None,
        "kernel_ns": int(np.median(length)) if len(length) else None,
        "empty_queue_share": round(float(ended[rows].mean()), 4) if len(rows) else 0.0,
    }


RULE = Rule("launch_bound", "Steps that are host-bound", _check, ("gpu", "launches"))
