"""A fused optimizer works in place.

What it shows: the peak without the temporary tensors of the optimizer step. The default of torch
(`foreach`) computes an update for all parameters at once, and holds it.

How it is computed: temporaries that the optimizer step allocates are taken out.

When it is wrong: a fused form exists for Adam, AdamW, Adagrad and SGD, for parameters on a GPU.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import Found, PeakPlan, memory_fix
from foretrace.model.allocator.categories import OPTIMIZER, OPTIMIZER_STEP, TEMPORARY

FUSED = {"Adam", "AdamW", "Adagrad", "SGD"}


@memory_fix("A fused optimizer")
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    rows = np.flatnonzero((view.ran == OPTIMIZER) & (view.category == TEMPORARY))
    held, size = plan.at_peak(rows)
    if not len(held):
        return
    # the class of the optimizer, as torch's annotation has it
    marks = [mark.name for mark in view.snapshot.marks if mark.name.startswith(OPTIMIZER_STEP)]
    name = marks[-1].removeprefix(OPTIMIZER_STEP).split(".")[0] if marks else "AdamW"
    order, write = "update the parameters one after another", "foreach=False"
    if name in FUSED:
        order, write = f"{name}(..., fused=True)", f"torch.optim.{name}(params, fused=True)"
    plan.new.size[rows] = 0
    why = f"the optimizer step holds {size} of temporary tensors at the peak"
    yield plan.proposal(order, why, write, held)
