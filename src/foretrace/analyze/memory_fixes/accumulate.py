"""Split the batch and accumulate the gradients.

What it shows: the peak with a quarter of the batch at a time.

How it is computed: what grows with the batch counts a quarter, and the gradients live through the
whole step.

When it is wrong: small batches use the GPU less, so a step takes longer. Batch norm sees the small
batch.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import (
    NUMBERS,
    TIME,
    Found,
    PeakPlan,
    grows_with_batch,
    memory_fix,
)
from foretrace.model.allocator.categories import GRADIENT
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers

PARTS = 4


@memory_fix("Split the batch", TIME)
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    rows = grows_with_batch(view)
    if not (view.trains or view.oom is not None) or not len(rows):
        return
    plan.new.size[rows] //= PARTS
    gradients = np.flatnonzero((view.category == GRADIENT) & ~view.lives.before)
    plan.new.start[gradients] = _step_starts(view, gradients)
    held, size = plan.at_peak(rows)
    normed = any("batch_norm" in words for words in view.facts.words)
    yield plan.proposal(
        f"split the batch in {PARTS} and accumulate the gradients",
        f"{size} at the peak grow with the batch",
        f"for part in batch.chunk({PARTS}): (loss(part) / {PARTS}).backward(); then step()",
        held,
        f"{PARTS} smaller passes for one: 14% more time in a measured pair"
        + ("; batch norm sees each part alone: compare the loss" if normed else ""),
        costs=NUMBERS if normed else TIME,
    )


def _step_starts(view: MemoryView, gradients: Numbers) -> Numbers:
    """Where the step of each gradient begins: once the gradients of the step before are freed."""
    start, end = view.lives.start[gradients], view.lives.end[gradients]
    steps = np.array([first for first, _ in view.steps])
    begins = [max([first, *end[(start < first) & (end > first)]]) for first in steps]
    mine = np.maximum(np.searchsorted(steps, start, side="right") - 1, 0)
    return np.asarray(np.minimum(start, np.array(begins)[mine]))
