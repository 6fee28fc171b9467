"""What grows with the batch: activations, inputs and temporaries, less copies of weights."""

from __future__ import annotations

import numpy as np

from foretrace.model.allocator.categories import ACTIVATION, INPUT, TEMPORARY
from foretrace.model.allocator.stacks import OPTIMIZER
from foretrace.model.allocator.view import MemoryView
from foretrace.schema.snapshot import Numbers


def grows_with_batch(view: MemoryView) -> Numbers:
    """The rows; a copy of a weight in a type of half its size does not grow."""
    kinds = np.isin(view.category, (ACTIVATION, INPUT, TEMPORARY)) & (view.ran != OPTIMIZER)
    sizes = view.parameter_sizes
    fixed = np.isin(view.lives.size, [*sizes, *(size // 2 for size in sizes)])
    return np.flatnonzero(kinds & ~fixed & ~view.lives.before)
