"""Keep weights, gradients and optimizer state in bf16.

What it shows: the peak when the model is bf16 and autocast has nothing to cast.

How it is computed: parameters, gradients and state count half; the bf16 copies of weights that
autocast makes are taken out. Told by those copies, or by the types that the program recorded.

When it is wrong: updates below a bf16 step of a weight are lost; check the loss.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import NUMBERS, Found, PeakPlan, memory_fix, weight_copies
from foretrace.model.allocator.categories import GRADIENT, PARAMETER, STATE

MOST = 0.5  # of the bytes of parameters that have a copy of half their size


@memory_fix("bf16 weights and state", NUMBERS)
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    copies, weights = weight_copies(view), (view.category == PARAMETER) & view.lives.kept
    copied = np.isin(view.lives.size // 2, view.lives.size[copies]) & weights
    size = view.lives.size
    if not view.trains or size[copied].sum() <= MOST * size[weights].sum():
        return
    kinds = np.isin(view.category, (PARAMETER, GRADIENT, STATE))
    plan.new.size[kinds] //= 2
    plan.new.size[copies] = 0
    held, at_most = plan.at_peak(np.flatnonzero(kinds))
    yield plan.proposal(
        "keep weights, gradients and optimizer state in bf16",
        f"parameters, gradients and state are {at_most} at "
        "the peak, and autocast copies the weights to half their size",
        "model.to(torch.bfloat16), without autocast",
        held,
        "updates below a bf16 step are lost: compare the loss",
    )
