"""Arithmetic on many intervals at once: unions, overlaps, and which range contains which."""

from __future__ import annotations

import numpy as np

from foretrace.schema.gaps import Bools as Bools
from foretrace.schema.gaps import Floats as Floats
from foretrace.schema.gaps import Ints as Ints
from foretrace.schema.gaps import Narrow

_MOST = 1 << 62  # beyond this a sum of two numbers leaves 64 bits


def numbered(*columns: Narrow) -> Ints:
    """A small number for each distinct combination of values."""
    combined, size = np.zeros(len(columns[0]), np.int64), 1
    for values in columns:
        distinct, number = np.unique(values, return_inverse=True)
        if size * len(distinct) > _MOST:
            combined, size = np.unique(combined, return_inverse=True)[1].reshape(-1), len(combined)
        combined = combined * max(len(distinct), 1) + number.reshape(-1)
        size *= max(len(distinct), 1)
    return np.unique(combined, return_inverse=True)[1].reshape(-1)


def union_length(start: Ints, end: Ints) -> int:
    """Time covered by at least one interval."""
    return int(union_by_group(np.zeros(len(start), np.int64), start, end, 1)[0])


def union_by_group(group: Ints, start: Ints, end: Ints, groups: int) -> Ints:
    """Covered time per group; the groups lie end to end on one axis, for a single sweep."""
    covered = np.zeros(groups, np.int64)
    if not len(start):
        return covered
    order, shifted_start, shifted_end = _lanes(group, start, end)
    reach = np.maximum.accumulate(shifted_end)
    before = np.concatenate(([shifted_start[0]], reach[:-1]))
    gained = np.maximum(shifted_end - np.maximum(shifted_start, before), 0)
    np.add.at(covered, group[order], gained)
    return covered


def shared_lengths(group: Ints, start: Ints, end: Ints) -> Floats:
    """The time of each interval, divided evenly among those of its group that run at once."""
    if not len(start):
        return np.zeros(0)
    order, first, last = _lanes(group, start, end)
    edges = np.unique(np.concatenate((first, last)))
    began, ended = (np.searchsorted(np.sort(each), edges[:-1], "right") for each in (first, last))
    parts = np.diff(edges) / np.maximum(began - ended, 1)
    before = np.concatenate(([0.0], np.cumsum(np.where(began > ended, parts, 0.0))))
    lengths = np.empty(len(start))
    lengths[order] = before[np.searchsorted(edges, last)] - before[np.searchsorted(edges, first)]
    return lengths


def overlapping(group: Ints, start: Ints, end: Ints) -> int:
    """How many intervals start before an earlier one of their group has ended."""
    if len(start) < 2:
        return 0
    _, shifted_start, shifted_end = _lanes(group, start, end)
    reach = np.maximum.accumulate(shifted_end)
    return int((shifted_start[1:] < reach[:-1]).sum())


def _lanes(group: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    low = int(start.min())
    lane = int(end.max()) - low + 1
    shift = group * lane - low
    order = np.lexsort((end, start, group))
    return order, (start + shift)[order], (end + shift)[order]


def innermost(outer_start: Ints, outer_end: Ints, points: Ints) -> Ints:
    """For each point the last range (sorted by start) that is open there, or -1."""
    found = np.searchsorted(outer_start, points, side="right") - 1
    pending = np.flatnonzero(found >= 0)
    while len(pending):
        closed = outer_end[found[pending]] <= points[pending]
        pending = pending[closed]
        found[pending] -= 1
        pending = pending[found[pending] >= 0]
    return found
