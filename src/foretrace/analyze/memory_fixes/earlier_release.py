"""Drop a name when its use is over.

What it shows: the peak without tensors of one step that live on into the next.

How it is computed: activations of a step that are freed after the next forward pass began are freed
at the end of their own step.

When it is wrong: the tensor may be used after the step, for a metric or a state.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from foretrace.analyze.memory_fixes._plan import Found, PeakPlan, memory_fix
from foretrace.model.allocator.categories import ACTIVATION, BEFORE_LINE, INPUT, KEPT
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers


@memory_fix("Drop a name earlier")
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    ends = np.array([end for _, end in view.steps])
    if not view.trains or len(ends) < 2:
        return
    kinds = np.isin(view.category, (ACTIVATION, INPUT, KEPT))
    own = ends[np.searchsorted(ends, view.lives.start, side="right").clip(max=len(ends) - 1)]
    late = np.flatnonzero(kinds & (view.lives.end > own) & (own < view.lives.events))
    late = np.union1d(late, np.flatnonzero(view.lives.before & (view.category == ACTIVATION)))
    # at the peak a step's own tensors are in use
    ended = view.lives.before[late] | (own[late] <= view.peak)
    held, size = plan.at_peak(late[ended])
    if not len(held):
        return
    plan.new.end[late] = np.where(view.lives.before[late], 0, own[late])
    order = f"drop what {_line(view, held)} made before the next step"
    why = f"{size} of earlier steps are live at the peak"
    yield plan.proposal(order, why, "del logits, or keep loss.item() instead of the tensor", held)


def _line(view: MemoryView, held: Numbers) -> str:
    """The line with the most bytes; of what is older than the history, that of an equal size."""
    total = Counter[str]()
    for row in held.tolist():
        total[view.line(row)] += int(view.lives.size[row])
    line = total.most_common(1)[0][0]
    if line != BEFORE_LINE:
        return line
    largest = view.lives.size[held].max()
    others = np.flatnonzero((view.lives.size == largest) & ~view.lives.before)
    return next((view.line(int(row)) for row in others), line)
