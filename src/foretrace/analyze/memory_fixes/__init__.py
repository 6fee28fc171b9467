"""What the fixes of `fixes.py` bring: the peak of memory with each, and with a larger batch."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.analyze.memory_fixes.fixes import FIXES
from foretrace.analyze.memory_fixes.plan import (
    MemoryProposal,
    NewLives,
    PeakPlan,
    grows_with_batch,
)
from foretrace.model.allocator.categories import curve
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers

MOST_TIMES = 1024  # the batch; beyond that a model is not what fills the memory
WORTH = 0.03  # of the peak: less is not worth a line


class PeakPrediction(Struct, frozen=True):
    """A proposal, and the peak with it."""

    fix: str
    proposal: MemoryProposal
    peak_bytes: int
    costs: int


def predicted(view: MemoryView) -> list[PeakPrediction]:
    """What each fix would bring: first those that cost nothing, then time, then exact numbers.

    Of those that cost the same, the lowest peak comes first. What brings little is left out.
    """
    found = [
        PeakPrediction(fix.name, each, peak_of(each.lives, view), max(each.costs, fix.costs))
        for fix in FIXES
        for each in fix.find(view)
    ]
    worth = [each for each in found if _brings(view, each) >= WORTH]
    return sorted(worth, key=lambda each: (each.costs, -_brings(view, each)))


def peak_of(lives: NewLives, view: MemoryView) -> int:
    """The most that is live at once with changed lives."""
    events = view.lives.events
    end = np.maximum(lives.end, lives.start + 1)
    return int(curve(lives.start, end, lives.size, events).max())


def peak_at_batch(view: MemoryView, factor: float, rows: Numbers | None = None) -> int:
    """The peak with a batch that is larger by a factor; `rows` grow with it, where known."""
    lives, rows = PeakPlan(view).new, grows_with_batch(view) if rows is None else rows
    lives.size[rows] = (lives.size[rows] * factor).astype(np.int64)
    return peak_of(lives, view)


def largest_batch(view: MemoryView, room: int) -> int | None:
    """How many times the batch fits into so many bytes: a whole number; None where none does."""
    rows = grows_with_batch(view)
    if not len(rows) or view.peak_bytes > room:
        return None
    low, high = 1, 2
    while high < MOST_TIMES and peak_at_batch(view, high, rows) <= room:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peak_at_batch(view, middle, rows) <= room else (low, middle)
    return low


def _brings(view: MemoryView, each: PeakPrediction) -> float:
    if each.proposal.reserved is not None:
        held = int(view.reserved.max())
        return (held - each.proposal.reserved) / max(held, 1)
    return (view.peak_bytes - each.peak_bytes) / max(view.peak_bytes, 1)
