"""What grows with the batch, and what only copies the weights."""

from __future__ import annotations

from collections import Counter

import numpy as np

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
