"""Paths: the chosen events above a launch, from the outermost to the innermost, one number for each
distinct sequence of names. Millions of launches share few paths.
"""

from __future__ import annotations

import numpy as np

from foretrace.model.host import Host
from foretrace.model.intervals import Bools, Ints

_STEP, _SPREAD = np.uint64(1_000_003), np.uint64(0x9E3779B97F4A7C15)


def nearest(host: Host, rows: Ints, chosen: Bools) -> Ints:
    """The innermost chosen event at or above each of these, or -1."""
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(found >= 0)
    while len(climbing):
        climbing = climbing[~chosen[found[climbing]]]
        found[climbing] = host.parent[found[climbing]]
        climbing = climbing[found[climbing] >= 0]
    return found


def numbers(host: Host, rows: Ints, chosen: Bools) -> Ints:
    """A number for the path of chosen events that ends at each of these; -1 for a row of -1."""
    path = np.zeros(host.count, np.uint64)
    events = np.flatnonzero(chosen & host.lasting)
    above, depth = nearest(host, host.parent[events], chosen), host.depth[events]
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


def names(host: Host, event: int, chosen: Bools) -> tuple[str, ...]:
    """The names of the chosen events at and above this one, outermost first."""
    found = []
    while event >= 0:
        if chosen[event]:
            found.append(host.names[host.name[event]])
        event = int(host.parent[event])
    return tuple(reversed(found))
