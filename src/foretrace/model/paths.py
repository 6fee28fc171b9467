"""Paths: the chosen events above a launch, from the outermost to the innermost, one number for each
distinct sequence of names. Millions of launches share few paths.
"""

from __future__ import annotations

import numpy as np

from foretrace.model.host import Host
from foretrace.model.intervals import Bools, Ints

_STEP, _SPREAD = np.uint64(1_000_003), np.uint64(0x9E3779B97F4A7C15)


def numbers(host: Host, rows: Ints, chosen: Bools) -> Ints:
    """A number for the path of chosen events that ends at each of these; -1 for a row of -1."""
    path = np.zeros(host.count, np.uint64)
    events = np.flatnonzero(chosen & host.lasting)
    above, depth = host.nearest(host.parent[events], chosen), host.depth[events]
    for level in np.unique(depth).tolist():
        here = depth == level
        over, mine = above[here], events[here]
        inherited = np.where(over >= 0, path[np.maximum(over, 0)], np.uint64(0))
        name = host.name[mine].astype(np.uint64) + np.uint64(1)
        path[mine] = (inherited * _STEP) ^ name * _SPREAD
    if not len(rows):
        return rows
    _, number = np.unique(path[np.maximum(rows, 0)], return_inverse=True)
    return np.where(rows >= 0, number.reshape(-1), -1)
