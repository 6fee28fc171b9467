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

import numpy as np

from foretrace.base.units import time_text, times_text
from foretrace.look.rules._seen import LISTED, Found, Seen, listing, rule
from foretrace.trace.intervals import Ints

FIXES = """
anomaly_mode boolean_mask grad_scaler pinned_copies reduce_on_gpu scalar_reads small_copies
synchronize
"""


@rule("Places where the host waits for the GPU", "gpu ops clock", fixes=FIXES, example="llama")
def _check(seen: Seen) -> Found:
    host, waits = seen.host, _inside(seen)
    if not len(waits):
        return

    def name(call: int, op: int) -> str:
        made = f"{host.names[host.name[op]]}: " if op >= 0 else ""
        return f"{made}{host.names[host.name[call]]}"

    makers = host.nearest_op(host.parent[waits])
    names = Counter(map(name, waits.tolist(), makers.tolist()))
    idle = seen.idle
    after = idle.length * (idle.of("sync") & (idle.then >= 0) & seen.proven())
    lost = seen.limited(after.sum())
    waited, count = seen.step(int(host.length[waits].sum())), seen.each(len(waits))
    calls = {name: seen.each(number) for name, number in names.most_common(LISTED)}
    then = f"the GPU is then idle for {time_text(lost)}" if lost else "no GPU time is lost by it"
    title = f"The host waits for the GPU {times_text(count)} {seen.per}; {then}"
    listed = listing([f"{name} ({number:g})" for name, number in list(calls.items())[:3]])
    detail = f"Calls: {listed}. The host waits {time_text(waited)} {seen.per}. "
    detail += seen.host_note() if lost else "The next work was already queued, or none followed."
    evidence = {"waits": count, "waited_ns": waited, "idle_ns": lost, "calls": calls}
    yield seen.found(title, detail, evidence, np.sort(waits), gaps=idle.only(after > 0))


def _inside(seen: Seen) -> Ints:
    """Waits that something follows: in a step, or, without steps, before the last launch."""
    host = seen.host
    waits = np.flatnonzero(host.is_wait & host.lasting)
    if seen.order.steps:
        return seen.inside_steps(waits)
    launches = host.start[host.is_launch]
    return waits[host.end[waits] <= launches.max()] if len(launches) else waits[:0]
