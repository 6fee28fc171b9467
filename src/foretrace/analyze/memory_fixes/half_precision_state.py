"""Keep weights, gradients and optimizer state in bf16.

What it shows: the peak when the model is bf16 and autocast has nothing to cast.

How it is computed: parameters, gradients and state count half; the bf16 copies of weights that
autocast makes are taken out. Told by those copies, or by the types that the program recorded.

When it is wrong: updates below a bf16 step of a weight are lost; check the loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import NUMBERS, MemoryFix, MemoryProposal, changed
from foretrace.analyze.memory_fixes._batch import weight_copies
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import GRADIENT, PARAMETER, STATE
from foretrace.model.allocator.view import MemoryView

MOST = 0.5  # of the bytes of parameters that have a copy of half their size


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    copies, weights = weight_copies(view), (view.category == PARAMETER) & view.lives.kept
    copied = np.isin(view.lives.size // 2, view.lives.size[copies]) & weights
    size = view.lives.size
    if not view.trains or size[copied].sum() <= MOST * size[weights].sum():
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


MEMORY_FIX = MemoryFix("half_precision_state", "bf16 weights and state", _find, NUMBERS)
