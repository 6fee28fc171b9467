"""How long a call takes without the profiler, where a run record beside the trace says so.

The profiler slows the host, so idle time in a trace is an upper bound of the
idle time without it. A run record has the wall time of one call of its region, or of one step where
it names no region (`foretrace.capture` writes such a record); what that leaves beside the GPU time
is all that a faster host can save.
"""

from __future__ import annotations

from foretrace.model.recording import Recording


def unprofiled_ns(trace: Recording, region: str) -> float | None:
    """Wall time of one call of this region without the profiler; None without a run record."""
    run = trace.run
    return run.timing.wall_ns_per_call if run.rung.region == region else None


def unprofiled_step_ns(trace: Recording) -> float | None:
    """Wall time of one step without the profiler; None where the record times a region's calls."""
    run = trace.run
    return run.timing.wall_ns_per_call if run.rung.region is None else None


def idle_limit_ns(trace: Recording) -> float | None:
    """The most that the GPU idles in a step without the profiler; None without a run record.

    Known where the record times steps, or every step calls its region equally often.
    """
    region, steps = trace.run.rung.region or "", trace.spans.steps
    if (step := unprofiled_step_ns(trace)) is not None:
        work = trace.spans.median_busy(steps)
        return None if work is None else max(step - work, 0.0)
    calls = trace.spans.region_groups().get(region, [])
    wall, busy = unprofiled_ns(trace, region), trace.spans.median_busy(calls)
    if wall is None or busy is None or len(calls) % max(len(steps), 1):
        return None
    return max(wall - busy, 0.0) * len(calls) / max(len(steps), 1)
