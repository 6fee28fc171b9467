"""Let zero_grad drop the gradients.

What it shows: the peak when gradients are freed after each step, not filled with zeros.

How it is computed: gradients that live through the forward pass are taken out, and the tensors of
the same size that the backward pass frees live to the end of the step instead.

When it is wrong: code that reads `.grad` between steps finds None.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import BACKWARD, GRADIENT, TEMPORARY
from foretrace.model.allocator.view import MemoryView


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    steps = view.steps
    held = view.category == GRADIENT
    stays = np.flatnonzero(held & view.lives.kept & (view.lives.start < steps[-1][0]))
    if not view.trains or not view.facts.optimizes or not len(stays) or len(steps) < 2:
        return
    lives = changed(view)
    lives.size[stays] = 0
    passing = (view.category == TEMPORARY) & (view.ran == BACKWARD) & ~view.lives.before
    rows = np.flatnonzero(passing & np.isin(view.lives.size, view.lives.size[stays]))
    ends = np.array([end for _, end in steps])
    lives.end[rows] = ends[
        np.searchsorted(ends, lives.start[rows], side="right").clip(max=len(ends) - 1)
    ]
    yield MemoryProposal(
        "optimizer.zero_grad() without set_to_none=False",
        f"{bytes_text(int(view.lives.size[stays].sum()))} of gradients live through the forward "
        "pass",
        "optimizer.zero_grad()",
        lives,
        np.intersect1d(stays, view.holders),
    )


MEMORY_FIX = MemoryFix("set_to_none", "zero_grad drops gradients", _find)
