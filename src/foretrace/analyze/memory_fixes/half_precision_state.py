"""Keep weights, gradients and optimizer state in bf16.

What it shows: the peak when the model is bf16 and autocast has nothing to cast.

How it is computed: parameters, gradients and state count half; the bf16 copies of weights that
autocast makes are taken out. Told by those copies, or by the types that the program recorded.

When it is wrong: updates below a bf16 step of a weight are lost; check the loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import ACTIVATION, GRADIENT, PARAMETER, STATE, TEMPORARY
from foretrace.model.allocator.stacks import FORWARD
from foretrace.model.allocator.view import MemoryView

MOST = 0.5  # of the bytes of parameters that have a copy of half their size


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    copies = _copies(view)
    if not view.trains or not len(copies):
        return
    lives = changed(view)
    kinds = np.isin(view.category, (PARAMETER, GRADIENT, STATE))
    lives.size[kinds] //= 2
    lives.size[copies] = 0
    held = np.intersect1d(np.flatnonzero(kinds), view.holders)
    yield MemoryProposal(
        "keep weights, gradients and optimizer state in bf16",
        f"parameters, gradients and state are {bytes_text(int(view.lives.size[held].sum()))} at "
        "the peak, and autocast copies the weights to half their size",
        "model.to(torch.bfloat16), without autocast",
        lives,
        held,
        "updates below a bf16 step are lost: compare the loss",
    )


def _copies(view: MemoryView) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The copies that autocast makes of weights: half a parameter each, in the forward pass."""
    weights = view.lives.size[(view.category == PARAMETER) & view.lives.kept]
    made = (view.ran == FORWARD) & np.isin(view.category, (ACTIVATION, TEMPORARY))
    rows = np.flatnonzero(made & ~view.lives.before & np.isin(view.lives.size, weights // 2))
    copied = np.isin(weights // 2, view.lives.size[rows])
    if weights[copied].sum() <= MOST * weights.sum():
        return rows[:0]
    starts = [start for start, _ in view.steps]
    steps = np.searchsorted(starts, view.lives.start[rows], side="right")
    # an activation may be as large: a step copies each weight once
    chosen = [
        rows[(steps == step) & (view.lives.size[rows] == half)][:count]
        for half, count in Counter((weights // 2).tolist()).items()
        for step in np.unique(steps)
    ]
    return np.concatenate(chosen)


MEMORY_FIX = MemoryFix("half_precision_state", "bf16 weights and state", _find)
