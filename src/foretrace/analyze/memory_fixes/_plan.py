"""What every memory fix needs: how it is declared, what it proposes, and the lives that it changes.

`grows_with_batch` tells what grows with the batch, and `weight_copies` what only copies weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, wraps

import numpy as np
from msgspec import Struct

from foretrace.base.units import bytes_text
from foretrace.model.allocator.categories import (
    ACTIVATION,
    BACKWARD,
    FORWARD,
    INPUT,
    OPTIMIZER,
    PARAMETER,
    TEMPORARY,
)
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers

# what a fix costs the user; a cheaper one comes first, however little it brings
FREE, TIME, NUMBERS = range(3)


class NewLives(Struct):
    """Lifetimes and sizes that a fix may change, one row for each allocation."""

    start: Numbers
    end: Numbers
    size: Numbers


class MemoryProposal(Struct, frozen=True):
    """A change that a user can make: what to do, what was seen, what it costs, and the new lives.

    `rows` are the allocations that it is about. Where the peak stays and only what is reserved
    falls, `reserved` holds the new bytes. `costs` is set where it is more than that of its fix.
    """

    order: str
    why: str
    write: str
    lives: NewLives
    rows: Numbers
    cost: str = ""
    reserved: int | None = None
    costs: int = FREE


Found = Iterator[MemoryProposal]


class MemoryFix(Struct, frozen=True):
    """One kind of change; the docstring of its module is the manual.

    `costs` is nothing, time, or numbers that come out otherwise.
    """

    name: str
    title: str
    find: Callable[[MemoryView], Iterable[MemoryProposal]]
    costs: int = FREE


class PeakPlan:
    """A view under one fix, and the lives as they would be."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view

    @cached_property
    def new(self) -> NewLives:
        """The lives of the view, to be changed."""
        lives = self.view.lives
        return NewLives(lives.start.copy(), lives.end.copy(), lives.size.copy())

    def at_peak(self, rows: Numbers) -> tuple[Numbers, str]:
        """Those of these rows that are live at the peak, and their bytes in words."""
        held = np.intersect1d(rows, self.view.holders)
        return held, bytes_text(int(self.view.lives.size[held].sum()))

    def proposal(
        self,
        order: str,
        why: str,
        write: str,
        rows: Numbers,
        cost: str = "",
        reserved: int | None = None,
        costs: int = FREE,
    ) -> MemoryProposal:
        """What to do, with the lives as they are then."""
        return MemoryProposal(order, why, write, self.new, rows, cost, reserved, costs)


def memory_fix(title: str, costs: int = FREE) -> Callable[[Callable[[PeakPlan], Found]], MemoryFix]:
    """Declare a function as the fix of its file, which has the file's name."""

    def declared(find: Callable[[PeakPlan], Found]) -> MemoryFix:
        @wraps(find)
        def found(view: MemoryView) -> Found:
            return find(PeakPlan(view))

        return MemoryFix(find.__module__.rpartition(".")[2], title, found, costs)

    return declared


def grows_with_batch(view: MemoryView) -> Numbers:
    """Activations, inputs and temporaries, less copies of weights and passing gradients."""
    kinds = np.isin(view.category, (ACTIVATION, INPUT, TEMPORARY)) & (view.ran != OPTIMIZER)
    rows = np.flatnonzero(kinds & ~view.lives.before)
    passing = _as_often_as_weights(view, rows[view.ran[rows] == BACKWARD], (1, 2))
    return np.setdiff1d(rows, np.concatenate([weight_copies(view), passing]))


def weight_copies(view: MemoryView) -> Numbers:
    """The copies that autocast makes of weights: half a parameter each, in the forward pass."""
    made = (view.ran == FORWARD) & np.isin(view.category, (ACTIVATION, TEMPORARY))
    return _as_often_as_weights(view, np.flatnonzero(made & ~view.lives.before), (2,))


def _as_often_as_weights(view: MemoryView, rows: Numbers, parts: tuple[int, ...]) -> Numbers:
    """The rows as large as a part of a weight, each step no more than there are such weights.

    An activation may be as large as a weight, so the size alone does not tell.
    """
    weights = view.lives.size[(view.category == PARAMETER) & view.lives.kept]
    wanted = Counter[int]()
    for part in parts:
        wanted.update((weights // part).tolist())
    rows = rows[np.isin(view.lives.size[rows], [*wanted])]
    size = view.lives.size[rows]
    most = np.array([wanted[each] for each in size.tolist()], np.int64)
    return np.asarray(rows[view.turns(rows, size) < most])
