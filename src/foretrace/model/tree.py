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
    crossings = 0
    for number in wrong.tolist():
        rows = order[lane == number]
        crossings += _walk(rows, 2 * start, 2 * end + (end == start), is_call, parent, depth)
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
    above = np.full(len(level), -1, np.int64)
    if not len(level):
        return above
    by_level = np.argsort(level, kind="stable")
    edges = np.searchsorted(level[by_level], np.arange(int(level.max()) + 2))
    for number in range(1, int(level.max()) + 1):
        over = by_level[edges[number - 1] : edges[number]]
        here = by_level[edges[number] : edges[number + 1]]
        place = np.searchsorted(over, here) - 1
        above[here] = np.where(place >= 0, over[np.maximum(place, 0)], -1) if len(over) else -1
    return above


def _walk(rows: Ints, start: Ints, end: Ints, is_call: Bools, parent: Ints, depth: Ints) -> int:
    """One thread with a stack, in doubled coordinates; returns how many ranges cross another.

    A range that has ended may lie under one that has not (they crossed): it is stepped over, not
    popped.
    """
    crossings = 0
    open_ranges: list[int] = []
    for row in rows.tolist():
        while open_ranges and end[open_ranges[-1]] <= start[row]:
            open_ranges.pop()
        place = len(open_ranges) - 1
        while place >= 0 and end[open_ranges[place]] <= start[row]:
            place -= 1
        if place >= 0 and end[open_ranges[place]] < end[row]:
            crossings += 1
            while not is_call[row] and place >= 0 and end[open_ranges[place]] < end[row]:
                place -= 1
        parent[row] = open_ranges[place] if place >= 0 else -1
        depth[row] = depth[open_ranges[place]] + 1 if place >= 0 else 0
        if not is_call[row]:
            open_ranges.append(row)
    return crossings
