"""Run inference without autograd.

What it shows: the peak when nothing is kept for a backward pass that never comes.

How it is computed: each activation lives to the end of its own block, or of the next op where no
blocks repeat.

When it is wrong: a backward pass after the recording needs what is kept.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import Found, PeakPlan, memory_fix, repeated_call
from foretrace.model.allocator.categories import ACTIVATION

AHEAD = 3  # allocations that an op may still need: its input, its output, one between


@memory_fix("Inference without autograd")
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    rows = np.flatnonzero((view.category == ACTIVATION) & ~view.lives.before)
    held, size = plan.at_peak(rows)
    # a program that ran out of memory in its first forward pass may be one that trains
    unfinished = view.oom is not None and (view.lives.end[held] >= view.history.failed_at).all()
    if view.trains or not len(held) or unfinished:
        return
    new = plan.new
    starts = view.lives.start
    following = np.append(starts[rows], [view.lives.events] * AHEAD)
    new.end[rows] = np.minimum(new.end[rows], following[AHEAD : AHEAD + len(rows)])
    found = repeated_call(view, rows)
    for call, then in zip(found.calls, found.calls[1:], strict=False) if found else ():
        # the block's output is the next one's input, and is added to its last value
        new.end[call[-1]] = max(int(new.end[call[-1]]), int(starts[then[-1]]) + 1)
    order = "run the forward pass under torch.inference_mode()"
    why = f"{size} are kept for a backward pass that never comes"
    yield plan.proposal(order, why, "with torch.inference_mode(): out = model(x)", held)
