"""How near two words are: one slip of a finger, or the most similar of several."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def one_edit(one: str, other: str) -> bool:
    """Whether one letter more, less or other, or two swapped, make one word of the other."""
    start = _shared(one, other)
    one, other = one[start:], other[start:]
    end = _shared(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _shared(one: str, other: str) -> int:
    """How many letters two words begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """The word most similar to `word`, the first of equals, or an empty text."""
    measure = difflib.SequenceMatcher(b=word.lower()[:60])
    best, closeness = "", cutoff
    for candidate in words:
        measure.set_seq1(candidate.lower())
        # The quick ratios are upper bounds of the real one, which costs a hundred times as much.
        if best and (measure.real_quick_ratio() <= closeness or measure.quick_ratio() <= closeness):
            continue
        if measure.ratio() > closeness or (not best and measure.ratio() >= cutoff):
            best, closeness = candidate, measure.ratio()
    return best
