"""Do not wait for the GPU inside the step.

What it looks for: `torch.cuda.synchronize()`, and the waits of a stream or an event, that no op
makes: the program itself asks for them.

What must hold: the GPU gets work after the wait, in this step or a later one; the profiler's own
wait at the end of a recording has none after it.

What changes: the calls go, and nothing waits for them.
"""

from __future__ import annotations

import numpy as np

from foretrace.base.units import plural
from foretrace.look.fixes._step import Proposal, Proposals, Step, fix, shown

ORDERS = {
    "DeviceSynchronize": "delete torch.cuda.synchronize() from the step",
    "CtxSynchronize": "delete torch.cuda.synchronize() from the step",
    "EventSynchronize": "read CUDA events after the step, not in it",
    "StreamSynchronize": "delete stream.synchronize() from the step",
}


@fix("Do not wait for the GPU inside the step", "gpu")
def _find(step: Step) -> Proposals:
    host, waits = step.trace.host, step.waiting
    # without an op around them, and a launch follows
    waits = waits[host.is_wait[waits] & (step.makers(waits) < 0)]
    launches = np.flatnonzero(host.is_launch & host.lasting)
    last = int(host.start[launches].max()) if len(launches) else 0
    waits = waits[host.end[waits] <= last]
    names = [step.name(call) for call in waits.tolist()]
    most = max(sorted(set(names)), key=names.count, default="")
    order = next((text for end, text in ORDERS.items() if end in most), "")
    if order:
        why = f"{plural(len(waits), 'call')} of {most} per step"
        risk = "timings with time.time() then measure the launches only"
        yield Proposal(order, why, step.without(waits), risk=risk, events=shown(waits))
