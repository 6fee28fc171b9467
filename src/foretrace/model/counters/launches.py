"""Which launches of two lists are the same kernel: names, footprints and order.

Torch's profiler and Nsight Compute write kernel names with two demanglers:

    trace  void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
           std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)
    ncu    void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,
           std::array<char *, 3>>(int, T2, T3)

They agree on the function and on the words of its template arguments.

Where several kernels of a trace share function, grid and block, the words of their template
arguments decide. A launch that fits none of them, or two, gets a number of its own.

The longest common subsequence of two lists may be found in several ways: `a a b` and `a b` leave
open which `a` is meant. A pair counts where every way has it. Both lists keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_NAMELESS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(unnamed namespace\)::")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_NUMBER, _TRUE, _FALSE = (re.compile(text) for text in (r"\b\d+", r"\btrue\b", r"\bfalse\b"))
# Words of one demangler alone.
_OWN = frozenset(
    (
        "instance",
        "unnamed",
        "anonymous",
        "namespace",
        "lambda",
        "const",
        "int",
        "bool",
        "unsigned",
        "long",
    )
)
_PARAMETER = re.compile(r"T\d+")


@lru_cache(maxsize=8192)
def function(name: str) -> str:
    """`void at::native::foo<4, float>(int)` -> `foo`."""
    plain = _NAMELESS.sub("", name)
    head = re.split(r"[<(]", plain, maxsplit=1)[0].strip()
    return re.split(r"::|\s", head)[-1] or plain


@lru_cache(maxsize=8192)
def argument_words(name: str) -> frozenset[str]:
    """The words of a name's template arguments, and its numbers as one more; none without any.

    `4, true, 128u` and `(int)4, (bool)1, (unsigned int)128` have the same numbers.
    """
    inside = _template(_NAMELESS.sub("", name))
    words = {
        word
        for word in _WORD.findall(inside)
        if word not in _OWN and not _PARAMETER.fullmatch(word)
    }
    numbers = ",".join(_NUMBER.findall(_TRUE.sub("1", _FALSE.sub("0", inside))))
    return frozenset(words | {numbers} if numbers else words)


def _template(name: str) -> str:
    """What stands between the angle brackets of the function."""
    start = name.find("<")
    if start < 0 or "(" in name[:start]:
        return ""
    depth = 0
    for at in range(start, len(name)):
        depth += (name[at] == "<") - (name[at] == ">" and name[at - 1] != "-")
        if depth == 0:
            return name[start + 1 : at]
    return name[start + 1 :]


def likeness(left: str, right: str) -> float:
    """The share of words that the arguments of two names have in common, 0 to 1."""
    ours, theirs = argument_words(left), argument_words(right)
    both = ours | theirs
    return len(ours & theirs) / len(both) if both else 1.0


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
