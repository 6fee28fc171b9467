"""Which kernel of A is which kernel of B.

Same: name, launch configuration and op shapes agree (shapes only where both traces recorded them).
Those that follow each other in both launch orders are found first, and hold the rest in place.
Changed: another kernel, or another launch of the same one, in the same place; the levels below, in
order, define the place. What is left was removed or added.

Every rule reads the same from both ends, so comparing B with A gives the mirror of comparing A with
B.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from foretrace.analyze.compare.launched import Kernel

Pair = tuple[int, int]
MATMULS = ("gemm", "gemv", "conv", "attention")
# Cells of the table that finds the common order: 200 MB and a second. A larger one is not made, and
# kernels of one kind are paired in turn.
MOST_CELLS = 50_000_000

# Each level pairs what is left, the first with the first, where the keys agree; None never agrees.
LEVELS: tuple[Callable[[Kernel], Hashable], ...] = (
    lambda kernel: (kernel.path, kernel.shapes, kernel.role) if kernel.path else None,
    lambda kernel: (kernel.path, kernel.shapes) if kernel.path and kernel.alone else None,
    lambda kernel: (kernel.op, kernel.shapes, kernel.role) if kernel.op else None,
    lambda kernel: (kernel.op, kernel.role) if kernel.op else None,
    lambda kernel: (kernel.role, kernel.flops) if kernel.flops and kernel.role in MATMULS else None,
)


class Alignment(Struct):
    """Pairs of positions in the two launch orders, and the positions that have no partner."""

    a: Sequence[Kernel]
    b: Sequence[Kernel]
    same: list[Pair] = field(default_factory=list)
    changed: list[Pair] = field(default_factory=list)
    left_a: list[int] = field(default_factory=list)
    left_b: list[int] = field(default_factory=list)

    def take(self, pairs: list[Pair], into: list[Pair]) -> None:
        """Add pairs, and take their members from what is left."""
        into += pairs
        gone_a, gone_b = {i for i, _ in pairs}, {j for _, j in pairs}
        self.left_a = [i for i in self.left_a if i not in gone_a]
        self.left_b = [j for j in self.left_b if j not in gone_b]

    def pair(
        self, into: list[Pair], keys_a: Mapping[int, Hashable], keys_b: Mapping[int, Hashable]
    ) -> None:
        """Pair what is left where the keys of two positions agree: the first with the first."""
        waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
        for j in reversed(self.left_b):
            waiting[keys_b[j]].append(j)
        waiting.pop(None, None)
        pairs = [(i, waiting[keys_a[i]].pop()) for i in self.left_a if waiting.get(keys_a[i])]
        self.take(pairs, into)

    def pair_by(self, into: list[Pair], key: Callable[[Kernel], Hashable]) -> None:
        """Pair what is left where the keys of two kernels agree."""
        keys_a = {i: key(self.a[i]) for i in self.left_a}
        self.pair(into, keys_a, {j: key(self.b[j]) for j in self.left_b})

    def places(self) -> tuple[dict[int, int], dict[int, int]]:
        """For what is left in A and in B: how many pairs that kept their order precede it."""
        kept = self._kept_order()
        spots_a, spots_b = [i for i, _ in kept], [j for _, j in kept]
        places_a = {i: bisect_right(spots_a, i) for i in self.left_a}
        return places_a, {j: bisect_right(spots_b, j) for j in self.left_b}

    def _kept_order(self) -> list[Pair]:
        """The most pairs that follow each other in both orders; the same ones from either side."""
        pairs = sorted(self.same + self.changed)
        turned = sorted((j, i) for i, j in pairs)
        if turned < pairs or (turned == pairs and _spelled(self.b) < _spelled(self.a)):
            return [(i, j) for j, i in _rising(turned)]
        return _rising(pairs)

    def mirrored(self) -> Alignment:
        """The same with A and B exchanged."""
        same, changed = ([(j, i) for i, j in pairs] for pairs in (self.same, self.changed))
        return Alignment(self.b, self.a, same, changed, self.left_b, self.left_a)


def align(a: Sequence[Kernel], b: Sequence[Kernel]) -> Alignment:
    """Pair everything that its name, launch, op or shapes identify."""
    found = Alignment(a, b, left_a=list(range(len(a))), left_b=list(range(len(b))))
    found.take(_in_order([kernel.kind for kernel in a], [kernel.kind for kernel in b]), found.same)
    found.pair_by(found.same, lambda kernel: kernel.kind)
    _pair_unshaped(found)
    for level in LEVELS:
        found.pair_by(found.changed, level)
    return found


def pair_by_place(found: Alignment) -> None:
    """The last resort: kernels of one role in one place."""
    a, b = found.places()
    found.pair(
        found.changed,
        {i: (found.a[i].role, place) for i, place in a.items()},
        {j: (found.b[j].role, place) for j, place in b.items()},
    )


def _spelled(kernels: Sequence[Kernel]) -> list[str]:
    """A launch order as text: decides between two orders whose positions are equal."""
    return [repr(kernel.kind) for kernel in kernels]


def _rising(pairs: list[Pair]) -> list[Pair]:
    """The longest rising run of second members (patience sorting)."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, (_, second) in enumerate(pairs):
        pile = bisect_left(tops, second)
        before.append(ends[pile - 1] if pile else -1)
        tops[pile : pile + 1], ends[pile : pile + 1] = [second], [at]
    kept, at = [], ends[-1] if ends else -1
    while at >= 0:
        kept.append(pairs[at])
        at = before[at]
    return kept[::-1]


def _in_order(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """The longest common subsequence. Of several as long, both sides find the same one."""
    numbers = {kind: n for n, kind in enumerate(sorted({*a, *b}, key=repr))}
    left, right = [numbers[kind] for kind in a], [numbers[kind] for kind in b]
    if (len(left), left) > (len(right), right):
        return [(i, j) for j, i in _longest(right, left)]
    return _longest(left, right)


def _longest(a: list[int], b: list[int]) -> list[Pair]:
    """A length grows by at most one from cell to cell, so a running maximum fills a row."""
    unequal = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    start = next(unequal, min(len(a), len(b)))
    head, a, b = [(n, n) for n in range(start)], a[start:], b[start:]
    if len(a) * len(b) > MOST_CELLS:
        return head
    lengths = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    columns = np.array(b, np.int64)
    for i, kind in enumerate(a):
        diagonal = lengths[i, :-1] + (columns == kind)
        lengths[i + 1, 1:] = np.maximum.accumulate(np.maximum(diagonal, lengths[i, 1:]))
    pairs, i, j = [], len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((start + i, start + j))
        elif lengths[i - 1, j] >= lengths[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return head + pairs[::-1]


def _pair_unshaped(found: Alignment) -> None:
    """Same name and launch count as the same where a trace has no shapes (a replayed graph)."""
    sides = [dict(enumerate(side)) for side in (found.a, found.b)]
    a, b = ({at: kernel.kind[:2] for at, kernel in side.items()} for side in sides)
    bare_a, bare_b = (
        {at: None if kernel.shapes is not None else kernel.kind[:2] for at, kernel in side.items()}
        for side in sides
    )
    found.pair(found.same, bare_a, b)
    found.pair(found.same, a, bare_b)
