"""One number for launches of two lists that may be the same kernel: function, grid, block, words.

Where several kernels of a trace share function, grid and block, the words of their template
arguments decide. A launch that fits none of them, or two, gets a number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foretrace.model.counters.names import argument_words, function, likeness

# Two demanglers write the arguments of one kernel with these words in common, and more.
SAME = 0.6


class LaunchShape(NamedTuple):
    """A launch as both lists have it; () where a grid or a block is not known."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]


def numbered_launches(
    ours: Sequence[LaunchShape], theirs: Sequence[LaunchShape]
) -> tuple[list[int], list[int]]:
    """A number for each launch of a trace and of an export; equal numbers may be one kernel."""
    sized = all(launch.grid and launch.block for launch in (*ours, *theirs))
    variants: dict[tuple[object, ...], list[str]] = {}
    for launch in ours:
        known = variants.setdefault(_class(launch, sized), [])
        if launch.name not in known:
            known.append(launch.name)
    bare = {function(launch.name) for launch in theirs if not argument_words(launch.name)}
    numbers: dict[tuple[object, ...], int] = {}

    def number(launch: LaunchShape, variant: object) -> int:
        return numbers.setdefault((*_class(launch, sized), variant), len(numbers))

    left = [
        number(launch, None if function(launch.name) in bare else launch.name) for launch in ours
    ]
    right = [
        number(launch, _variant(launch, variants.get(_class(launch, sized), []), bare))
        for launch in theirs
    ]
    return left, right


def _class(launch: LaunchShape, sized: bool) -> tuple[object, ...]:
    shape = (launch.grid, launch.block) if sized else ()
    return (function(launch.name), *shape)


def _variant(launch: LaunchShape, known: Sequence[str], bare: set[str]) -> object:
    """The kernel of the trace that a launch of the export is; itself where that is not certain."""
    if function(launch.name) in bare:
        return None
    scores = sorted(((likeness(name, launch.name), name) for name in known), reverse=True)
    if not scores or scores[0][0] < SAME:
        return ("other", launch.name)
    if len(scores) > 1 and scores[1][0] == scores[0][0]:
        return ("either", launch.name)
    return scores[0][1]
