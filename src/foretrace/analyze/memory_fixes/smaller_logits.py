"""Compute the loss in parts.

What it shows: the peak when the logits, their float copy and their gradients exist for an eighth of
the tokens at a time.

How it is computed: the largest allocation inside `cross_entropy` gives the size of the logits.
Allocations of that size, of half and of twice it, near the loss, count an eighth.

When it is wrong: other tensors that happen to have this size are counted too. The matmul of each
part runs again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import ACTIVATION, GRADIENT, TEMPORARY
from foretrace.model.allocator.view import MemoryView

PARTS = 8
_LOSSES = {"cross_entropy", "nll_loss", "log_softmax"}


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    inside = np.array([not _LOSSES.isdisjoint(words) for words in view.facts.words])
    loss = np.flatnonzero(inside[view.lives.stack] & ~view.lives.before)
    if not view.trains or not len(loss):
        return
    size = int(view.lives.size[loss].max())
    close = np.isin(view.lives.size, (size, size // 2, 2 * size))
    kinds = np.isin(view.category, (ACTIVATION, TEMPORARY, GRADIENT))
    rows = np.flatnonzero(close & kinds & ~_of_parameters(view))
    lives = changed(view)
    lives.size[rows] //= PARTS
    held = np.intersect1d(rows, view.holders)
    if not len(held):
        return
    yield MemoryProposal(
        f"compute the loss in {PARTS} parts ({view.line(int(loss[0]))})",
        f"logits, their copies and gradients are {bytes_text(int(view.lives.size[held].sum()))} "
        f"at the peak, {bytes_text(size)} each",
        "checkpoint(head_and_loss, hidden_part, target_part) for each part, or Liger's "
        "LigerFusedLinearCrossEntropyLoss",
        lives,
        held,
        "the head's matmul runs again in the backward pass",
    )


def _of_parameters(view: MemoryView) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Gradients of parameters are not those of logits, also where one is as large."""
    sizes = view.parameter_sizes
    same = np.isin(view.lives.size, [*sizes])
    return np.asarray(same & (view.category == GRADIENT))


MEMORY_FIX = MemoryFix("smaller_logits", "Compute the loss in parts", _find)
