"""Idle GPU time as the rules count it: that of a typical step, and only what the trace proves.

The typical step is the one with the median idle time, so a cold first step counts for nothing and
the parts of a figure add up. Without steps, it is the whole recording. A run record beside the
trace limits what a faster host can save.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural, time_text
from foretrace.model import wall
from foretrace.model.idle import Idle, lost_launches, unproven, windows_of
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule

# A step of a large model has thousands of gaps; the longest show where to look.
RANGES = 200


def typical_idle(trace: Trace) -> Idle:
    """The gaps of the step with the median idle time; of the recording where there are no steps."""
    return trace.gaps.typical or trace.idle


def step_ns(trace: Trace) -> int:
    """How long a step takes on all its GPUs together, busy or idle; or the recording."""
    windows = [windows_of(trace, span) for span in trace.spans.steps]
    times = [sum(end - begin for _, begin, end in mine) for mine in windows if mine]
    return int(np.median(times)) if times else trace.idle.window_ns


def untold(trace: Trace, rule: Rule) -> Finding | None:
    """The finding of a rule that has no answer because most idle time is not proven."""
    idle = typical_idle(trace)
    if idle.length[unproven(trace, idle)].sum() <= idle.length.sum() / 2:
        return None
    count = plural(len(lost_launches(trace)), "launch", "launches")
    detail = f"needs the GPU events of captured or lost launches: {count} without any"
    return Finding(rule.name, "skipped", rule.title, detail)


def ranges(idle: Idle) -> tuple[tuple[int, int, int], ...]:
    """The longest of these gaps; parts of one gap that follow each other are one range."""
    order = np.lexsort((idle.start, idle.device))
    start, end, device = (part[order] for part in (idle.start, idle.end, idle.device))
    apart = (start[1:] != end[:-1]) | (device[1:] != device[:-1])
    first, last = np.ones(len(start), bool), np.ones(len(start), bool)
    first[1:], last[:-1] = apart, apart
    start, end, device = start[first], end[last], device[first]
    longest = np.argsort(start - end, kind="stable")[:RANGES]
    columns = (part[longest].tolist() for part in (start, end, device))
    return tuple(zip(*columns, strict=True))


def limited(trace: Trace, ns: float) -> int:
    """A saving of host time, at most what the run record leaves of it."""
    limit = wall.idle_limit_ns(trace)
    return round(ns if limit is None else min(ns, limit))


def most_idle(trace: Trace) -> int:
    """GPU idle time of a step: no saving on the host alone can exceed it."""
    idle = typical_idle(trace)
    return limited(trace, idle.length[~unproven(trace, idle) & ~idle.of("queue")].sum())


def host_note(trace: Trace) -> str:
    """What every figure of host time needs beside it."""
    limit = wall.idle_limit_ns(trace)
    if limit is None:
        return "Host times include profiler overhead."
    idle = f"the GPU is idle for at most {time_text(round(limit))}"
    return f"Host times are profiled; without the profiler {idle} (run record)."
