"""Let zero_grad drop the gradients.

What it shows: the peak when gradients are freed after each step, not filled with zeros.

How it is computed: gradients that live through the forward pass are taken out, and the tensors of
the same size that the backward pass frees live to the end of the step instead.

When it is wrong: code that reads `.grad` between steps finds None.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import Found, PeakPlan, memory_fix
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import BACKWARD, GRADIENT, TEMPORARY


@memory_fix("zero_grad drops gradients")
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    steps = view.steps
    held = view.category == GRADIENT
    stays = np.flatnonzero(held & view.lives.kept & (view.lives.start < steps[-1][0]))
    if not view.trains or not view.facts.optimizes or not len(stays) or len(steps) < 2:
        return
    plan.new.size[stays] = 0
    passing = (view.category == TEMPORARY) & (view.ran == BACKWARD) & ~view.lives.before
    rows = np.flatnonzero(passing & np.isin(view.lives.size, view.lives.size[stays]))
    ends = np.array([end for _, end in steps])
    own = np.searchsorted(ends, plan.new.start[rows], side="right").clip(max=len(ends) - 1)
    plan.new.end[rows] = ends[own]
    order = "optimizer.zero_grad() without set_to_none=False"
    size = bytes_text(int(view.lives.size[stays].sum()))
    why = f"{size} of gradients live through the forward pass"
    yield plan.proposal(order, why, "optimizer.zero_grad()", plan.at_peak(stays)[0])
