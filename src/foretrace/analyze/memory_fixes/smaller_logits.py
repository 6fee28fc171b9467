"""Compute the loss in parts.

What it shows: the peak when the logits, their float copy and their gradients exist for an eighth of
the tokens at a time.

How it is computed: the largest allocation inside `cross_entropy` gives the size of the logits.
Allocations of that size, of half and of twice it, among the twelve before and after one of the
loss, count an eighth.

When it is wrong: a tensor of such a size so near the loss is counted, even where it is not one of
logits. The matmul of each part runs again in the backward pass.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import TIME, Found, PeakPlan, memory_fix
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import ACTIVATION, GRADIENT, TEMPORARY
from foretrace.schema.snapshot import Numbers

PARTS = 8
NEAR = 12  # allocations: the head and its casts, and their gradients; not the last block
_LOSSES = {"cross_entropy", "nll_loss", "log_softmax"}


@memory_fix("Compute the loss in parts", TIME)
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    inside = np.array([not _LOSSES.isdisjoint(words) for words in view.facts.words])
    loss = np.flatnonzero(inside[view.lives.stack] & ~view.lives.before)
    if not view.trains or not len(loss):
        return
    size = int(view.lives.size[loss].max())
    close = np.isin(view.lives.size, (size, size // 2, 2 * size))
    kinds = np.isin(view.category, (ACTIVATION, TEMPORARY, GRADIENT))
    # gradients of parameters are not those of logits, also where one is as large
    parameters = np.isin(view.lives.size, [*view.parameter_sizes]) & (view.category == GRADIENT)
    rows = np.flatnonzero(close & kinds & ~parameters)
    rows = rows[_distance(rows, loss) <= NEAR]
    plan.new.size[rows] //= PARTS
    held, whole = plan.at_peak(rows)
    if not len(held):
        return
    yield plan.proposal(
        f"compute the loss in {PARTS} parts ({view.line(int(loss[0]))})",
        f"logits, their copies and gradients are {whole} at the peak, {bytes_text(size)} each",
        "checkpoint(head_and_loss, hidden_part, target_part) for each part, or Liger's "
        "LigerFusedLinearCrossEntropyLoss",
        held,
        "the head's matmul runs again in the backward pass: 37 and 43% more time in two measured "
        "pairs",
    )


def _distance(rows: Numbers, loss: Numbers) -> Numbers:
    """How many allocations lie between each row and the nearest one of the loss."""
    after = np.searchsorted(loss, rows).clip(max=len(loss) - 1)
    before = np.maximum(after - 1, 0)
    return np.asarray(np.minimum(np.abs(loss[after] - rows), np.abs(loss[before] - rows)))
