"""Split the batch and accumulate the gradients.

What it shows: the peak with a quarter of the batch at a time.

How it is computed: what grows with the batch counts a quarter, and the gradients live through the
whole step.

When it is wrong: small batches use the GPU less, so a step takes longer. Batch norm sees the small
batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import NUMBERS, TIME, MemoryFix, MemoryProposal, changed
from foretrace.analyze.memory_fixes._batch import grows_with_batch
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import GRADIENT
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers

PARTS = 4


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    rows = grows_with_batch(view)
    if not (view.trains or view.oom is not None) or not len(rows):
        return
    lives = changed(view)
    lives.size[rows] //= PARTS
    gradients = np.flatnonzero((view.category == GRADIENT) & ~view.lives.before)
    lives.start[gradients] = _step_starts(view, gradients)
    held = np.intersect1d(rows, view.holders)
    normed = any("batch_norm" in words for words in view.facts.words)
    yield MemoryProposal(
        f"split the batch in {PARTS} and accumulate the gradients",
        f"{bytes_text(int(view.lives.size[held].sum()))} at the peak grow with the batch",
        f"for part in batch.chunk({PARTS}): (loss(part) / {PARTS}).backward(); then step()",
        lives,
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


MEMORY_FIX = MemoryFix("accumulate", "Split the batch", _find, TIME)
