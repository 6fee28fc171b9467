"""Which requests a kernel worked on: the sums that the annotation of its step states, as costs take
them.

Only the annotations that state context lengths count (see `model/serving.py`); of nested ones the
innermost around the launch does.
"""

from __future__ import annotations

import numpy as np

from foretrace.model.costs import Context
from foretrace.model.intervals import Ints
from foretrace.model.recording import Recording
from foretrace.model.serving import served_batch
from foretrace.schema.kernel import NAME_LIMIT


def context_of(name: str) -> Context | None:
    """The requests that an annotation states, prefilled and decoding ones together."""
    batch = served_batch(name)
    if batch is None:
        return None
    both = (batch.prefill, batch.decode)
    squares = [each.squares for each in both]
    keys, pairs = batch.context, batch.pairs
    if keys is None or pairs is None or None in squares:
        return None
    count = sum(each.count for each in both)
    return Context(count, batch.tokens, keys, pairs, sum(each or 0 for each in squares))


def contexts(trace: Recording, rows: Ints) -> tuple[Ints, list[Context]]:
    """For rows of `gpu` the number of their context, or -1, and the distinct contexts."""
    host = trace.host
    found = np.full(len(rows), -1, np.int64)
    regions = np.flatnonzero(host.is_region)
    names, place = np.unique(host.name[regions], return_inverse=True)
    stated = [context_of(host.names[name][:NAME_LIMIT]) for name in names.tolist()]
    known = [context for context in stated if context is not None]
    if not known:
        return found, []
    number = np.cumsum([context is not None for context in stated]) - 1
    number[[context is None for context in stated]] = -1
    of_event = np.full(host.count, -1, np.int64)
    of_event[regions] = number[place.reshape(-1)]
    event = host.nearest(trace.gpu.launch[rows], of_event >= 0)
    found[event >= 0] = of_event[event[event >= 0]]
    return found, known
