"""Train in bfloat16, without a GradScaler.

What it looks for: the ops of a GradScaler: gradients are divided by a scale and searched for
infinities, and the host reads whether one was found before it calls the optimizer.

What must hold: the GPU computes in bfloat16 as fast as in float16: NVIDIA's from Ampere on, AMD's
of the CDNA series. bfloat16 has the exponents of float32 and needs no scale.

What changes: these ops go, with the wait, and with the Python code that visits each gradient before
the division. The matmuls take as long in either type.
"""

from __future__ import annotations

import numpy as np

from foretrace.look.fixes._host import waited
from foretrace.look.fixes._step import GraphChange, Proposal, Proposals, Step, fix

UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
UPDATE = "aten::_amp_update_scale_"
RECIPROCAL, READ = "aten::reciprocal", "aten::item"
BF16 = ("sm_8", "sm_9", "sm_10", "sm_12", "gfx9")
NEAR_NS = 2_000_000  # from the inverse of the scale to the division


@fix("Train without a GradScaler", "gpu")
def _find(step: Step) -> Proposals:
    unscale, update, start = step.ops(UNSCALE), step.ops(UPDATE), step.trace.host.start
    arch = step.device.arch if step.device else ""
    if not len(unscale) or not len(update) or not arch.startswith(BF16):
        return
    # values that the host reads between the division and the new scale, waiting for the GPU
    between = (start >= start[unscale[0]]) & (start < start[update[-1]])
    reads = waited(step, step.outermost(step.named({READ}) & between))
    events = np.concatenate((unscale, update, reads))
    rows, free = step.below(events), step.waits_below(reads)
    host, inverse = step.trace.host, step.ops(RECIPROCAL)
    found = []
    for event in unscale.tolist():
        before = inverse[host.start[inverse] < host.start[event]][-1:]
        if len(before) and host.start[event] - host.start[before[0]] < NEAR_NS:
            found.append((int(host.start[before[0]]), int(host.start[event])))
    removed = (*step.with_gaps(events), *tuple(found))
    change = GraphChange(removed, gone=frozenset(rows.tolist()), unwaited=free)
    order = "autocast in bfloat16, without a GradScaler"
    why = "each step unscales gradients, looks for infinities and waits for the answer"
    yield Proposal(order, why, change, risk="gradients in bfloat16", events=step.events(rows))
