"""Capture of one callable: first call, warm calls, times without the profiler, recorded steps."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import torch

from foretrace.record.profiling.environment import on_cuda
from foretrace.record.profiling.export import stem_of
from foretrace.record.profiling.record import CallTimes
from foretrace.record.profiling.window import Capture, refuse_second_profiler, synchronize

# The times are medians of at most SAMPLES batches within BUDGET_NS: enough to see the spread of a
# fast call, and three calls for one that takes seconds.
SAMPLES = 5
BUDGET_NS = 1_000_000_000


def capture_call(
    call: Callable[[], object],
    path: str | os.PathLike[str],
    *,
    region: str,
    steps: int = 3,
    warmup: int = 3,
    timing_pass: bool = False,
    facts: Mapping[str, Any] | None = None,
    **options: Any,
) -> Capture:
    """Run `call` as one step, repeatedly, and write its trace and record; options of `Capture`.

    The first call is timed alone (it includes compilation and lazy loading), then `warmup - 1` more
    warm up, then the wall time is measured without the profiler. The profiler starts after that:
    wait 1, warmup 1, `steps` recorded. `timing_pass` records once more without shapes, stacks or
    memory, as `NAME.timing.json.gz`: those options slow the host, so read host times there.
    """
    refuse_second_profiler()
    if on_cuda():
        torch.cuda.reset_peak_memory_stats()
    window = Capture(path, steps=steps, warmup=0, region=region, facts=facts, **options)
    window.record.profile = {**window.record.profile, "warmup": warmup}
    with window.compiler, window.graphs:
        warm = [batch(call, 1)[0] for _ in range(warmup)]
        window.record.timing = CallTimes(first_call_ns=warm[0] if warm else None)
        _time(call, window.record.timing)
        _record(call, window)
    if timing_pass:
        stem = stem_of(window.target)
        beside = window.target.with_name(window.target.name.replace(stem, f"{stem}.timing", 1))
        plain: dict[str, Any] = {"shapes": False, "overwrite": window.overwrite}
        facts = window.record.facts
        again = Capture(beside, steps=steps, warmup=0, region=region, facts=facts, **plain)
        again.record.timing, again.record.compiling = window.record.timing, window.record.compiling
        _record(call, again)
    return window


def _record(call: Callable[[], object], window: Capture) -> None:
    with window:
        for _ in range(window.plain_steps + 1 + (window.steps or 0)):
            call()
            window.step()


def _time(call: Callable[[], object], timing: CallTimes) -> None:
    """Median wall and host time per call over a few batches; each ends with the device idle."""
    one = batch(call, 1)[0]
    count = max(1, min(20, BUDGET_NS // SAMPLES // max(one, 1)))
    batches = [batch(call, count) for _ in range(SAMPLES if one * SAMPLES < 4 * BUDGET_NS else 2)]
    walls, hosts = zip(*batches, strict=True)
    wall_ns = int(statistics.median(walls))
    timing.wall_ns_per_call, timing.host_ns_per_call = wall_ns, int(statistics.median(hosts))
    timing.wall_spread = round((max(walls) - min(walls)) / wall_ns, 4) if wall_ns else None
    timing.calls_timed = count * len(batches)


def batch(call: Callable[[], object], count: int) -> tuple[int, int]:
    """Wall and host nanoseconds per call over `count` calls; wall ends with the device idle."""
    synchronize()
    began = perf_counter_ns()
    for _ in range(count):
        call()
    issued = perf_counter_ns()
    synchronize()
    return (perf_counter_ns() - began) // count, (issued - began) // count
