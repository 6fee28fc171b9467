"""Places where the host waits for the GPU.

What it shows: calls inside the steps that return only when the GPU has caught up
(`cudaStreamSynchronize`, `cudaMemcpy`), by the op that makes them: `item`, `nonzero`, a copy to the
host. Also how long the GPU was idle afterwards, because nothing had been queued.

Why it matters: a waiting host launches nothing, so the GPU runs out of work and stays idle until
the host has launched again. One `.item()` per step for a log line is enough.

How it is computed: wait calls inside the steps (without steps: those with launches after them), and
the idle time that began during one of them. The saving is at most that idle time.

When it is wrong: a wait that a program needs (to pass a result to the host) can only be moved, not
dropped. A wait inside a library call that the profiler does not show is not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.analyses._common import LISTED, each, ids, inside_steps, listing, per
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding, Rule
from foretrace.units import time_text, times_text


def _check(trace: Trace) -> Iterator[Finding]:
    host, order, idle = trace.host, trace.order, trace.idle
    waits = _inside(trace)
    if not len(waits):
        return
    makers = host.nearest_op(host.parent[waits])
    pairs = zip(waits.tolist(), makers.tolist(), strict=True)
    names = Counter(_name(trace, call, op) for call, op in pairs)
    lost = order.per_step(int(idle.length[idle.of("sync")].sum()))
    waited, count = order.per_step(int(host.length[waits].sum())), each(trace, len(waits))
    calls = {name: each(trace, number) for name, number in names.most_common(LISTED)}
    title = f"The host waits for the GPU {times_text(count)} {per(trace)}"
    listed = listing([f"{name} ({number:g})" for name, number in list(calls.items())[:3]])
    detail = (
        f"Calls: {listed}. The host waits {time_text(waited)} {per(trace)}. The GPU is then idle "
        f"for {time_text(lost)}."
    )
    evidence = {"waits": count, "waited_ns": waited, "idle_ns": lost, "calls": calls}
    yield Finding(RULE.name, "found", title, detail, evidence, ids(np.sort(waits)), lost)


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


RULE = Rule("sync_stalls", "Places where the host waits for the GPU", _check, ("gpu", "ops"))
