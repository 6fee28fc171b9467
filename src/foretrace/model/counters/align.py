"""Two lists of launches side by side: only pairs that no other best alignment contradicts.

The longest common subsequence may be found in several ways: `a a b` and `a b` leave open which `a`
is meant. A pair counts where every way has it. Both lists keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LARGEST = 16_000_000  # cells: 4,000 launches on either side, 64 MB

Table = NDArray[np.int16]


def certain_pairs(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]] | None:
    """Pairs of places that every longest alignment has; None for lists that are too long."""
    if list(left) == list(right):
        return [(at, at) for at in range(len(left))]
    if len(left) * len(right) > LARGEST or max(len(left), len(right)) > 30_000:
        return None
    ours, theirs = np.asarray(left, np.int64), np.asarray(right, np.int64)
    before = _lengths(ours, theirs)
    after = _lengths(ours[::-1], theirs[::-1])[::-1, ::-1]
    longest = int(before[-1, -1])
    equal = ours[:, None] == theirs[None, :]
    possible = equal & (before[:-1, :-1] + 1 + after[1:, 1:] == longest)
    rows, columns = np.nonzero(possible)
    # every longest alignment has one pair of each rank: a rank with one candidate is certain
    rank = before[rows, columns]
    alone = np.bincount(rank, minlength=max(longest, 1))[rank] == 1
    return [(int(i), int(j)) for i, j in zip(rows[alone], columns[alone], strict=True)]


def _lengths(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> Table:
    """Row i, column j: the length of the longest common subsequence of the first i and j."""
    found = np.zeros((len(ours) + 1, len(theirs) + 1), np.int16)
    for at, value in enumerate(ours):
        above = found[at]
        reached = np.maximum(above[1:], above[:-1] + (theirs == value))
        found[at + 1, 1:] = np.maximum.accumulate(reached)
    return found


def occurrences(part: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Where `part` stands in `whole` without a gap."""
    if not part or len(part) > len(whole):
        return []
    pattern, text = np.asarray(part), np.asarray(whole)
    starts = np.flatnonzero(text[: len(text) - len(pattern) + 1] == pattern[0])
    for offset in range(1, len(pattern)):
        starts = starts[text[starts + offset] == pattern[offset]]
    return [int(start) for start in starts]
