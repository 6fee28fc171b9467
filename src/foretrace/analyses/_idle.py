"""Idle GPU time as the rules count it: that of a typical step, and only what the trace proves.

The typical step is the one with the median idle time, so a cold first step counts for nothing and
the parts of a figure add up. Without steps, it is the whole recording. A run record beside the
trace limits what a faster host can save.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from foretrace.model import wall
from foretrace.model.intervals import Bools, Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import plural, time_text

# From a launch into an empty queue to the start of its work: 9 us at the median on an H200, 92 us
# at most on an MI300X. What waits longer was queued, and the host is not to blame for it.
LATENCY_NS = 100_000


class TypicalStep(Struct, frozen=True):
    """Which gaps belong to it, and how long it lasts on the devices that it uses."""

    gaps: Bools
    window_ns: int

    def total(self, ns: Any) -> int:
        """The sum of some figure of its gaps."""
        return int(ns[self.gaps].sum())


def typical_step(trace: Trace) -> TypicalStep:
    """The step with the median idle time; the whole recording where there are no steps."""
    idle = trace.idle
    start, end = _windows(trace)
    if not len(start):
        return TypicalStep(np.ones(len(idle.start), bool), idle.window_ns)
    # a gap that begins with a step's window belongs to that step
    step = np.searchsorted(start, idle.start, side="right") - 1
    total = np.bincount(np.maximum(step, 0), weights=idle.length, minlength=len(start))
    middle = int(np.argsort(total, kind="stable")[(len(start) - 1) // 2])
    devices = max(sum(len(busy.start) > 0 for busy in trace.busy), 1)
    return TypicalStep(step == middle, int(end[middle] - start[middle]) * devices)


def _windows(trace: Trace) -> tuple[Ints, Ints]:
    """From the start of each step to the end of its work, less what an earlier step takes of it."""
    gpu, found = trace.gpu, []
    reach = -np.iinfo(np.int64).max
    for span in sorted(trace.spans.steps, key=lambda span: span.start_ns):
        mine = span.work[gpu.usable[span.work]]
        if len(mine):
            end = max(span.end_ns, int(gpu.end[mine].max()))
            found.append((max(span.start_ns, reach), max(end, reach)))
            reach = max(reach, end)
    edges = np.array(found, np.int64).reshape(-1, 2)
    return edges[:, 0], edges[:, 1]


def lost_launches(trace: Trace) -> Ints:
    """Launches without GPU work in the trace: captured into a graph, or their events were lost."""
    host = trace.host
    return np.setdiff1d(np.flatnonzero(host.is_launch & host.timed), trace.gpu.launch)


def unproven(trace: Trace) -> Bools:
    """Gaps in which the host made such launches: what they launched may have run in the gap."""
    idle, made = trace.idle, np.sort(trace.host.start[lost_launches(trace)])
    return np.searchsorted(made, idle.start) < np.searchsorted(made, idle.end)


def untold(trace: Trace, rule: Rule) -> Finding | None:
    """The finding of a rule that has no answer because most idle time is not proven."""
    idle, lost, step = trace.idle, unproven(trace), typical_step(trace)
    if step.total(idle.length * lost) <= step.total(idle.length * ~lost):
        return None
    count = plural(len(lost_launches(trace)), "launch has", "launches have")
    detail = f"needs GPU events: {count} none here (captured into a CUDA graph, or lost)"
    return Finding(rule.name, "skipped", rule.title, detail)


def host_part(trace: Trace) -> Ints:
    """The part of each gap before its next work was launched, and the latency of that launch."""
    idle, gpu = trace.idle, trace.gpu
    launch = gpu.launch[np.maximum(idle.then, 0)] if len(gpu) else idle.then
    known = (idle.then >= 0) & (launch >= 0)
    launched = np.where(known, trace.host.start[np.maximum(launch, 0)], idle.end)
    queued = idle.end - np.clip(launched, idle.start, idle.end)
    part: Ints = idle.length - np.maximum(queued - LATENCY_NS, 0)
    return part


def limited(trace: Trace, ns: float) -> int:
    """A saving of host time, at most what the run record leaves of it."""
    limit = wall.idle_limit_ns(trace)
    return round(ns if limit is None else min(ns, limit))


def most_idle(trace: Trace) -> int:
    """GPU idle time of a step: no saving on the host alone can exceed it."""
    proven = trace.idle.length * ~unproven(trace)
    return limited(trace, typical_step(trace).total(proven))


def host_note(trace: Trace) -> str:
    """What every figure of host time needs beside it."""
    limit = wall.idle_limit_ns(trace)
    if limit is None:
        return "Host times include profiler overhead."
    text = time_text(round(limit))
    return f"Without the profiler the GPU is idle for at most {text} (run record)."
