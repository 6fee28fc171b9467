"""Places where the host waits for the GPU.

What it shows: calls inside the steps that return only when the GPU has caught up
(`cudaStreamSynchronize`, `cudaMemcpy`), by the op that makes them: `item`, `nonzero`, a copy to the
host. Also how long the GPU was idle afterwards, because nothing had been queued.

Why it matters: a waiting host launches nothing, so the GPU runs out of work and stays idle until
the host has launched again. One `.item()` per step for a log line is enough.

How it is computed: wait calls inside the steps (without steps: those with launches after them), and
the idle time after them until more work was launched. The saving is at most that idle time, and at
most what the host waited: the rest of the idle time is the host's own.

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

# As a program writes the op or call.
NAMES = {
    "aten::_local_scalar_dense": "item()",
    "aten::nonzero": "nonzero()",
    "cudaDeviceSynchronize": "torch.cuda.synchronize()",
    "hipDeviceSynchronize": "torch.cuda.synchronize()",
}


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
    saved = min(lost, waited)
    then = f"the GPU is then idle for {time_text(lost)}" if lost else "no GPU time is lost by it"
    title = f"The host waits for the GPU {times_text(count)} {per(trace)}; {then}"
    listed = listing([f"{name} ({number:g})" for name, number in list(calls.items())[:3]])
    detail = f"Calls: {listed}. The host waits {time_text(waited)} {per(trace)}. "
    detail += host_note(trace) if lost else "The next work was already queued, or none followed."
    evidence = {"waits": count, "waited_ns": waited, "idle_ns": lost, "calls": calls}
    fix = _fix(trace, _costliest(trace, waits, idle.end, after)) if lost else ""
    events = ids(np.sort(waits))
    found = (RULE.name, "found", title, detail, evidence, events, saved or None, fix)
    yield Finding(*found, ranges(idle.only(after > 0)))


def _inside(trace: Trace) -> Ints:
    """Waits that something follows: in a step, or, without steps, before the last launch."""
    host = trace.host
    waits = np.flatnonzero(host.is_wait & host.lasting)
    if trace.order.steps:
        return inside_steps(trace, waits)
    launches = host.start[host.is_launch]
    return waits[host.end[waits] <= launches.max()] if len(launches) else waits[:0]


def _costliest(trace: Trace, waits: Ints, end: Ints, cost: Ints) -> int:
    """One of the waits that the GPU was idle after for longest, of gaps with their end and cost."""
    host, lost, of = trace.host, Counter[str](), dict[str, int]()
    waits = waits[np.argsort(host.start[waits], kind="stable")]
    last = np.searchsorted(host.start[waits], end) - 1
    for at, ns in zip(last[cost > 0].tolist(), cost[cost > 0].tolist(), strict=True):
        call = int(waits[max(at, 0)])
        name = _name(trace, call, int(host.nearest_op(host.parent[[call]])[0]))
        lost[name] += ns
        of.setdefault(name, call)
    return of[lost.most_common(1)[0][0]]


def _fix(trace: Trace, call: int) -> str:
    maker = int(trace.host.nearest_op(trace.host.parent[[call]])[0])
    op, _, api = _name(trace, call, maker).rpartition(": ")
    if op != "aten::copy_":
        return f"avoid {NAMES.get(op or api, op or api)} inside the step"
    # A copy to the host must end before the host reads it: not waiting would read too early.
    if _to_host(trace, call, maker):
        return "copy to the host later, or less often"
    return "copy without waiting (non_blocking=True, pinned memory)"


def _to_host(trace: Trace, call: int, maker: int) -> bool:
    """Whether a copy that this call made, or the op above it, goes to the host."""
    gpu, host = trace.gpu, trace.host
    copies = gpu.id[gpu.is_memcpy & ((gpu.launch == call) | (gpu.op == maker))]
    return any("DtoH" in host.names[name] for name in host.name[copies].tolist())


def _name(trace: Trace, call: int, op: int) -> str:
    name = trace.host.names[trace.host.name[call]]
    return f"{trace.host.names[trace.host.name[op]]}: {name}" if op >= 0 else name


RULE = Rule(
    "sync_stalls", "Places where the host waits for the GPU", _check, ("gpu", "ops", "clock")
)
