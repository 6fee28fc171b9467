"""Give a cache its full size once.

What it shows: the peak when a cache is not copied to grow.

How it is computed: of the allocations of a line that takes a little more each time, the last of
each layer stays and the copies are taken out.

When it is wrong: room for the longest answer is taken from the start.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import Found, PeakPlan, memory_fix
from foretrace.model.allocator.categories import KEPT, grows


@memory_fix("A cache of full size")
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    if view.trains:
        return
    rows = np.flatnonzero(grows(view.lives, view.facts) & (view.category == KEPT))
    held, size = plan.at_peak(rows)
    if len(held) < 2:
        return
    for stack in np.unique(view.lives.stack[rows]):
        same = rows[view.lives.stack[rows] == stack]
        starts = view.lives.start[same]
        # a cache ends where the copy that takes its place begins: the last one before its release
        last = np.searchsorted(starts, view.lives.end[same]) - 1
        copied = last > np.arange(len(same))
        plan.new.end[same[copied]] = starts[last[copied]]
    order = f"allocate the cache of {view.line(int(held[0]))} once, in its full size"
    why = f"the cache is copied to grow; {size} at the peak are caches and a copy"
    write = "cache = torch.empty(..., longest, ...); cache[:, :, at] = new"
    yield plan.proposal(order, why, write, held)
