"""Places where the host waits for the GPU.

What it shows: calls inside the steps that return only when the GPU has caught up
(`cudaStreamSynchronize`, `cudaMemcpy`), by the op that makes them: `item`, `nonzero`, a copy to the
host. Also how long the GPU was idle afterwards, because nothing had been queued.

Why it matters: a waiting host launches nothing, so the GPU runs out of work and stays idle until
the host has launched again. One `.item()` per step for a log line is enough.

How it is computed: wait calls inside the steps (without steps: those with launches after them), and
the idle time after them until more work was launched. What it saves not to wait is predicted by the
fixes for each cause: a read of numbers, a boolean mask, a copy, `synchronize()`.

When it is wrong: a wait that a program needs (to pass a result to the host) can only be moved, not
dropped. A wait inside a library call that the profiler does not show is not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.analyze.rules._common import LISTED, each, ids, inside_steps, listing, per
from foretrace.analyze.rules._idle import host_note, limited, ranges, typical_idle
from foretrace.base.units import time_text, times_text
from foretrace.model.idle import unproven
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule


def _check(trace: Trace) -> Iterator[Finding]:
    host, order = trace.host, trace.order
    waits = _inside(trace)
    if not len(waits):
        return
    makers = host.nearest_op(host.parent[waits])
    pairs = zip(waits.tolist(), makers.tolist(), strict=True)
    names = Counter(_name(trace, call, op) for call, op in pairs)
    idle = typical_idle(trace)
    after = idle.length * (idle.of("sync") & (idle.then >= 0) & ~unproven(trace, idle))
    lost = limited(trace, after.sum())
    waited, count = order.per_step(int(host.length[waits].sum())), each(trace, len(waits))
    calls = {name: each(trace, number) for name, number in names.most_common(LISTED)}
    then = f"the GPU is then idle for {time_text(lost)}" if lost else "no GPU time is lost by it"
    title = f"The host waits for the GPU {times_text(count)} {per(trace)}; {then}"
    listed = listing([f"{name} ({number:g})" for name, number in list(calls.items())[:3]])
    detail = f"Calls: {listed}. The host waits {time_text(waited)} {per(trace)}. "
    detail += host_note(trace) if lost else "The next work was already queued, or none followed."
    evidence = {"waits": count, "waited_ns": waited, "idle_ns": lost, "calls": calls}
    gaps = ranges(idle.only(after > 0))
    yield Finding(RULE.name, "found", title, detail, evidence, ids(np.sort(waits)), ranges=gaps)


def _inside(trace: Trace) -> Ints:
    """Waits that something follows: in a step, or, without steps, before the last launch."""
    host = trace.host
    waits = np.flatnonzero(host.is_wait & host.lasting)
    if trace.order.steps:
        return inside_steps(trace, waits)
    launches = host.start[host.is_launch]
    return waits[host.end[waits] <= launches.max()] if len(launches) else waits[:0]


def _name(trace: Trace, call: int, op: int) -> str:
    name = trace.host.names[trace.host.name[call]]
    return f"{trace.host.names[trace.host.name[op]]}: {name}" if op >= 0 else name


FIXES = """
anomaly_mode boolean_mask grad_scaler pinned_copies reduce_on_gpu scalar_reads small_copies
synchronize
"""
TITLE = "Places where the host waits for the GPU"
RULE = Rule("sync_stalls", TITLE, _check, ("gpu", "ops", "clock"), fixes=tuple(FIXES.split()))
