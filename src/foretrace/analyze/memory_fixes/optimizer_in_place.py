"""A fused optimizer works in place.

What it shows: the peak without the temporary tensors of the optimizer step. The default of torch
(`foreach`) computes an update for all parameters at once, and holds it.

How it is computed: temporaries that the optimizer step allocates are taken out.

When it is wrong: a fused form exists for Adam, AdamW, Adagrad and SGD, for parameters on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import OPTIMIZER, OPTIMIZER_STEP, TEMPORARY
from foretrace.model.allocator.view import MemoryView

FUSED = {"Adam", "AdamW", "Adagrad", "SGD"}


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    rows = np.flatnonzero((view.ran == OPTIMIZER) & (view.category == TEMPORARY))
    held = np.intersect1d(rows, view.holders)
    if not len(held):
        return
    name = _name(view)
    order = (
        f"{name}(..., fused=True)" if name in FUSED else "update the parameters one after another"
    )
    lives = changed(view)
    lives.size[rows] = 0
    yield MemoryProposal(
        order,
        f"the optimizer step holds {bytes_text(int(view.lives.size[held].sum()))} of temporary "
        "tensors at the peak",
        f"torch.optim.{name}(params, fused=True)" if name in FUSED else "foreach=False",
        lives,
        held,
    )


def _name(view: MemoryView) -> str:
    """The class of the optimizer, as torch's annotation has it; AdamW where none is recorded."""
    marks = [mark.name for mark in view.snapshot.marks if mark.name.startswith(OPTIMIZER_STEP)]
    return marks[-1].removeprefix(OPTIMIZER_STEP).split(".")[0] if marks else "AdamW"


MEMORY_FIX = MemoryFix("optimizer_in_place", "A fused optimizer", _find)
