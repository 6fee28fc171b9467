"""Give a cache its full size once.

What it shows: the peak when a cache is not copied to grow.

How it is computed: of the allocations of a line that takes a little more each time, the last of
each layer stays and the copies are taken out.

When it is wrong: room for the longest answer is taken from the start.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foretrace.analyze.memory_fixes import MemoryFix, MemoryProposal, changed
from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import KEPT, grows
from foretrace.model.allocator.view import MemoryView


def _find(view: MemoryView) -> Iterator[MemoryProposal]:
    if view.trains:
        return
    rows = np.flatnonzero(grows(view.lives, view.facts) & (view.category == KEPT))
    held = np.intersect1d(rows, view.holders)
    if len(held) < 2:
        return
    lives = changed(view)
    line = int(held[0])
    for stack in np.unique(view.lives.stack[rows]):
        same = rows[view.lives.stack[rows] == stack]
        starts = view.lives.start[same]
        # a cache ends where the copy that takes its place begins: the last one before its release
        last = np.searchsorted(starts, view.lives.end[same]) - 1
        copied = last > np.arange(len(same))
        lives.end[same[copied]] = starts[last[copied]]
    yield MemoryProposal(
        f"allocate the cache of {view.line(line)} once, in its full size",
        f"the cache is copied to grow; {bytes_text(int(view.lives.size[held].sum()))} at the peak "
        "are caches and a copy",
        "cache = torch.empty(..., longest, ...); cache[:, :, at] = new",
        lives,
        held,
    )


MEMORY_FIX = MemoryFix("static_cache", "A cache of full size", _find)
