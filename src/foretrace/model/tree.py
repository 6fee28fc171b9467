"""Who called whom: for every host event the nearest range on its thread that contains it.

Properly nested threads, which is nearly all of them, are solved with sorting alone. A thread on
which ranges cross is walked with a stack: a crossing range keeps the nearest range that contains
all of it. A runtime call belongs to the range it starts in, even when clock drift lets it end a
little later (ROCm).
"""

from __future__ import annotations

import numpy as np

from foretrace.model.intervals import Bools, Ints


def build(track: Ints, start: Ints, end: Ints, is_call: Bools) -> tuple[Ints, Ints, int]:
    """(parent or -1, depth, crossings) of events that are sorted by start, the longer first."""
    count = len(start)
    parent, depth = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    if not count:
        return parent, depth, 0
    narrow = track.astype(np.int16) if int(track.max()) < 1 << 15 else track  # sorts faster
    order = np.argsort(narrow, kind="stable")
    lane, begin, finish = _one_axis(track[order], start[order], end[order])
    level = np.arange(count) - np.searchsorted(np.sort(finish), begin, side="right")
    above = _last_above(level)
    crossing = (above >= 0) & (finish[above] < finish) & (above != np.arange(count))
    wrong = np.unique(lane[crossing])
    parent[order] = np.where(above >= 0, order[above], -1)
    depth[order] = level
    edges = np.append(np.searchsorted(lane, wrong), np.searchsorted(lane, wrong, "right"))
    crossings = 0
    for first, last in edges.reshape(2, -1).T.tolist():
        rows = order[first:last]
        crossings += _walk(rows, start[rows], end[rows], is_call[rows], parent, depth)
    return parent, depth, crossings


def _one_axis(track: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Threads laid end to end, coordinates doubled: an empty range still ends after its start."""
    lane = np.cumsum(np.concatenate(([0], track[1:] != track[:-1])))
    low = start.min()
    width = 2 * (end.max() - low) + 4
    begin = 2 * (start - low) + lane * width
    finish = 2 * (end - low) + (end == start) + lane * width
    return lane, begin, finish


def _last_above(level: Ints) -> Ints:
    """For each event the latest earlier one that is one level higher, or -1."""
    count = len(level)
    by_level = np.argsort(level, kind="stable")
    place = level[by_level] * count + by_level  # in order: by level, then by time
    found = np.searchsorted(place, place - count) - 1
    over = by_level[np.maximum(found, 0)]
    above = np.empty(count, np.int64)
    above[by_level] = np.where((found >= 0) & (level[over] == level[by_level] - 1), over, -1)
    return above


def _walk(rows: Ints, start: Ints, end: Ints, is_call: Bools, parent: Ints, depth: Ints) -> int:
    """One thread with a stack; returns how many ranges cross another.

    A range hides those below it that end no later: it contains all that they still can. So the ends
    of the open ranges fall from the bottom to the top of the stack.
    """
    crossings = 0
    open_ranges: list[tuple[int, int]] = []  # end and row
    columns = (rows, 2 * start, 2 * end + (end == start), is_call)  # an empty range ends later
    for row, begin, finish, called in zip(*(each.tolist() for each in columns), strict=True):
        while open_ranges and open_ranges[-1][0] <= begin:
            open_ranges.pop()
        crossings += bool(open_ranges) and open_ranges[-1][0] < finish
        while not called and open_ranges and open_ranges[-1][0] < finish:
            open_ranges.pop()
        if open_ranges:
            parent[row] = open_ranges[-1][1]
            depth[row] = depth[parent[row]] + 1
        else:
            parent[row], depth[row] = -1, 0
        if not called:
            open_ranges.append((finish, row))
    return crossings
