"""Drop a name when its use is over.

What it shows: the peak without tensors of one step that live on into the next.

How it is computed: activations of a step that are freed after the next forward pass began are freed
at the end of their own step.

When it is wrong: the tensor may be used after the step, for a metric or a state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import ACTIVATION, INPUT, KEPT
from foretrace.model.allocator.view import MemoryView


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    ends = np.array([end for _, end in view.steps])
    if not view.trains or len(ends) < 2:
        return
    kinds = np.isin(view.category, (ACTIVATION, INPUT, KEPT))
    own = ends[np.searchsorted(ends, view.lives.start, side="right").clip(max=len(ends) - 1)]
    late = np.flatnonzero(kinds & (view.lives.end > own) & (own < view.lives.events))
    late = np.union1d(late, np.flatnonzero(view.lives.before & (view.category == ACTIVATION)))
    held = np.intersect1d(late, view.holders)
    if not len(held):
        return
    lives = changed(view)
    lives.end[late] = np.where(view.lives.before[late], 0, own[late])
    largest = int(held[np.argmax(view.lives.size[held])])
    where = view.line(largest)
    others = np.flatnonzero(view.lives.size == view.lives.size[largest])
    told = next((view.line(int(row)) for row in others if not view.lives.before[row]), where)
    yield MemoryProposal(
        f"drop what {told} made before the next step",
        f"{bytes_text(int(view.lives.size[held].sum()))} of a step are still live in the next one",
        "del logits, or keep loss.item() instead of the tensor",
        lives,
        held,
    )


MEMORY_FIX = MemoryFix("earlier_release", "Drop a name earlier", _find)
