"""Checkpoint the repeated blocks of a model.

What it shows: the peak when each block keeps its input alone, and computes its activations again in
the backward pass.

How it is computed: activations below the line that calls the blocks live from the first release in
their own block, not from the forward pass. The last one of each block stays: it is the next block's
input. Where memory ran out in the forward pass, the peak is the one up to there.

When it is wrong: the forward pass runs twice. Blocks of very different sizes, or a peak in the
loss, gain less.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.memory_fixes._plan import (
    TIME,
    Found,
    PeakPlan,
    line_of,
    memory_fix,
    repeated_call,
)
from foretrace.base.units import bytes_text, plural
from foretrace.model.allocator.categories import ACTIVATION


@memory_fix("Checkpoint the blocks", TIME)
def _find(plan: PeakPlan) -> Found:
    view = plan.view
    rows = np.flatnonzero((view.category == ACTIVATION) & ~view.lives.before)
    trains = view.trains or view.oom is not None  # the first forward pass may be too large
    found = repeated_call(view, rows) if trains and len(rows) else None
    if found is None:
        return
    new, held = plan.new, 0
    for call in found.calls:
        inner = call[:-1]
        # memory ran out before their backward pass
        if (view.lives.end[call] >= view.history.failed_at).all():
            new.end[inner] = int(new.start[call[-1]]) + 1
        else:
            # one event earlier than the first release: all of the block is there again
            first = int(view.lives.end[call].min()) - 1
            new.start[inner] = max(first, int(new.start[call[-1]]))
        held = max(held, int(view.lives.size[inner].sum()))
    inner = np.concatenate([call[:-1] for call in found.calls])
    rows, size = plan.at_peak(inner)
    order = f"checkpoint the {plural(found.blocks, 'block')} called at {line_of(view, found.frame)}"
    why = f"{size} of activations live from their forward to their backward pass; "
    why += f"one block needs {bytes_text(held)}"
    write = "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"
    cost = "one more forward pass of the blocks: 17 to 81% more time in four measured pairs"
    yield plan.proposal(order, why, write, rows, cost)
