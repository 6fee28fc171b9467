"""Which GPU work of A corresponds to which work of B, and what of B replaces what of A.

`docs/compare.md` says what is the same, changed ("Which kernel is which"; `LEVELS` define the
place), removed or added, and how places arise ("One line a change"). The same kernels that follow
each other in both launch orders are paired first.

Places are joined where a kernel of B does the work of a kernel of A that runs elsewhere:

- `named`: an Inductor kernel came from some ops, by the compiler's records or by its name, and a
  kernel near by ran one of them. A Triton kernel of another author lists none: its role decides.
- `epilogues`: a matmul changed its op (`aten::mm` to `aten::addmm`) or its epilogue (`bias`), and
  the pointwise kernel that did so after it is left.
- `merged`: a matmul has the FLOPs of several equal ones, and those are left.
- `beside`: a memcpy or memset belongs to the kernel that the same call of an op launched.

Every rule is symmetric: comparing B with A gives the mirror of comparing A with B.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from msgspec import Struct, field

from foretrace.compare.sides import Kernel
from foretrace.work import families

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
        pairs = sorted(self.same + self.changed)
        turned = sorted((j, i) for i, j in pairs)
        # the most pairs that follow each other in both orders; the same ones from either side
        if turned < pairs or (turned == pairs and _spelled(self.b) < _spelled(self.a)):
            kept = [*_turned(_rising(turned))]
        else:
            kept = _rising(pairs)
        spots_a, spots_b = [i for i, _ in kept], [j for _, j in kept]
        places_a = {i: bisect_right(spots_a, i) for i in self.left_a}
        return places_a, {j: bisect_right(spots_b, j) for j in self.left_b}

    def mirrored(self) -> Alignment:
        """The same with A and B exchanged."""
        same, changed = ([(j, i) for i, j in pairs] for pairs in (self.same, self.changed))
        return Alignment(self.b, self.a, same, changed, self.left_b, self.left_a)


def align(a: Sequence[Kernel], b: Sequence[Kernel]) -> Alignment:
    """Pair everything that its name, launch, op or shapes identify."""
    found = Alignment(a, b, left_a=list(range(len(a))), left_b=list(range(len(b))))
    found.take(_in_order([kernel.kind for kernel in a], [kernel.kind for kernel in b]), found.same)
    found.pair_by(found.same, lambda kernel: kernel.kind)
    # the same name and launch count where a trace has no shapes (a replayed graph)
    sides = [dict(enumerate(side)) for side in (found.a, found.b)]
    kinds_a, kinds_b = ({at: kernel.kind[:2] for at, kernel in side.items()} for side in sides)
    bare_a, bare_b = (
        {at: None if kernel.shapes is not None else kernel.kind[:2] for at, kernel in side.items()}
        for side in sides
    )
    found.pair(found.same, bare_a, kinds_b)
    found.pair(found.same, kinds_a, bare_b)
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


# A kernel may lie this many kept kernels away from the one that names it. In eager GeGLU the
# matmul `up` runs between gelu and mul, and both end in the one kernel after it. On the recorded
# ladder three finds what Inductor fused in the MLP, the block, the model and the training step;
# six finds no more.
NEAR = 3
MOST_PAIRS = 4_000_000  # of two places: a second; in more, nothing is near anything

_ELEMENTWISE = frozenset({"pointwise", "copy", "memcpy"})
_ROWS = _ELEMENTWISE | {"reduction", "scan", "normalization", "softmax", "random", "scatter_gather"}
# What a kernel of each role can hold of others.
HOLDS = {
    "pointwise": _ELEMENTWISE | {"random"},
    **dict.fromkeys(("reduction", "scan", "normalization", "softmax", "other"), _ROWS),
    "attention": _ROWS | {"gemm", "gemv"},
    "gemm": _ROWS | {"gemm"},
    "optimizer": _ELEMENTWISE | {"optimizer"},
}
COMPILED = ("inductor_triton", "inductor_cpp", "inductor_backend")  # their names list ops
TRITON = ("liger_triton", "user_triton")
# A kernel of these roles that replaces several is a fusion, of any author.
WHOLE_OPS = ("attention", "normalization", "softmax", "optimizer")
PLAIN_MATMULS = ("aten::mm", "aten::bmm", "aten::matmul")
SUMS = ("bias", "badd")  # an epilogue that adds


def origin_ops(kernel: Kernel) -> frozenset[str]:
    """The ops of the program that an Inductor kernel performs: as the compiler recorded them, else
    those in its name that it may compute.
    """
    if kernel.origins:
        return kernel.origins
    return frozenset(op.strip("_") for op in families.own_ops(families.decode(kernel.name)))


def bare(op: str) -> str:
    """`aten::add_` -> `add`."""
    return op.rpartition("::")[2].strip("_")


def can_hold(holder: Kernel, other: Kernel) -> bool:
    """Whether a kernel of this role can do the work of the other."""
    return other.role in HOLDS.get(holder.role, frozenset())


def named(found: Alignment) -> Iterator[Pair]:
    """Links from kernels of B to the kernels of A near by that they name, or can hold where they
    are whole ops; where one of the two has no counterpart in its own place.
    """
    here_a, here_b = map(by_place, found.places())
    near = []
    for p, away in product(here_a, range(-NEAR, NEAR + 1)):
        if (q := p + away) in here_b and away and (p not in here_b or q not in here_a):
            few = len(here_a[p]) * len(here_b[q]) <= MOST_PAIRS
            for i, j in product(here_a[p], here_b[q]) if few else ():
                if _takes(found.b[j], found.a[i]):
                    # of two as near the later one, since fusing delays work; then the longest
                    rank = abs(away), away < 0, -(found.b[j].ns.median or 0)
                    near.append((*rank, i, j, p not in here_b, q not in here_a))
    best_a: dict[int, int] = {}
    best_b: dict[int, int] = {}
    for *_, i, j, alone_a, alone_b in sorted(near):
        if alone_a:
            best_a.setdefault(i, j)
        if alone_b:
            best_b.setdefault(j, i)
    yield from best_a.items()
    yield from ((i, j) for j, i in best_b.items())


def _takes(taker: Kernel, other: Kernel) -> bool:
    """Whether a kernel may do the work of another that runs elsewhere."""
    if not can_hold(taker, other):
        return False
    named = origin_ops(taker)
    if named or taker.family in COMPILED:
        return any(bare(op) in named for op in other.path)
    whole = taker.family in TRITON or taker.role in WHOLE_OPS
    return whole and other.op is not None and other.family not in COMPILED


def by_place(places: Mapping[int, int]) -> dict[int, list[int]]:
    """Positions by their place."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for at, place in places.items():
        found[place].append(at)
    return dict(found)


def epilogues(found: Alignment) -> Iterator[Pair]:
    """Pointwise kernels of A after a matmul, and the matmul of B that now does the same."""
    left = set(found.left_a)
    for i, j in sorted(found.changed):
        taken = _taken_in(found.a[i], found.b[j]) if found.b[j].role == "gemm" else frozenset()
        for k in range(i + 1, len(found.a)) if taken else ():
            if found.a[k].is_kernel:
                if k not in left or bare(found.a[k].op or "") not in taken:
                    break
                yield k, j


def _taken_in(before: Kernel, after: Kernel) -> frozenset[str]:
    """The pointwise ops that a matmul does and its counterpart does not."""
    old, new = (set(families.decode(each.name).get("epilogue") or ()) for each in (before, after))
    taken = {word for word in new - old if not word.endswith("-capable")}  # ability, not work
    if before.op in PLAIN_MATMULS and after.op not in PLAIN_MATMULS:
        taken |= {"bias"} | ({"relu", "gelu"} if "activation" in (after.op or "") else set())
    return frozenset(taken | ({"add"} if taken.intersection(SUMS) else set()))


def merged(found: Alignment) -> Iterator[Pair]:
    """Matmuls of B as large as several equal ones of A together, such as gate and up in one."""
    left: defaultdict[int | None, list[int]] = defaultdict(list)
    for i in found.left_a:
        if found.a[i].role == "gemm":
            left[found.a[i].flops].append(i)
    for i, j in sorted(found.changed):
        before, after = found.a[i], found.b[j]
        if not before.flops or after.role != "gemm":
            continue
        times, rest = divmod(after.flops or 0, before.flops)
        equal = left[before.flops][: times - 1]
        if not rest and times > 1 and len(equal) == times - 1:
            yield from ((k, j) for k in equal)
            del left[before.flops][: times - 1]


def beside(work: Sequence[Kernel], same: Sequence[Pair], side: int) -> dict[int, int]:
    """Memcpys and memsets that are not the same -> a kernel of the same call that is not either."""
    unlike = sorted(set(range(len(work))) - {pair[side] for pair in same})
    kernels = {work[at].call: at for at in reversed(unlike) if work[at].is_kernel}
    copies = [at for at in unlike if not work[at].is_kernel and work[at].call >= 0]
    return {at: kernels[work[at].call] for at in copies if work[at].call in kernels}


SIGNS = ("name", "epilogue", "merged", "place", "pair")  # the strongest first
Node = tuple[str, int]  # a side and a position
Parts = dict[Node, set[Node]]  # of each node all that belong together, one set for all of them


class Replacement(Struct, frozen=True):
    """Positions in A and in B that replace each other; one side is empty for removed or added
    work. `sign` is what joined them: `name`, `epilogue`, `merged`, `pair` or `place`.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    sign: str


def replacements(found: Alignment) -> list[Replacement]:
    """Every position that is not the same, in exactly one of them, in launch order."""
    links = {
        "pair": found.changed,
        "epilogue": [*epilogues(found), *_turned(epilogues(found.mirrored()))],
        "merged": [*merged(found), *_turned(merged(found.mirrored()))],
    }
    copied = {"a": beside(found.a, found.same, 0), "b": beside(found.b, found.same, 1)}
    # what a matmul took in, and what its call copied, has its counterpart, whatever else runs in
    # its place
    taken = [*links["epilogue"], *links["merged"]]
    gone_a, gone_b = (
        {i for i, _ in taken}.union(copied["a"]),
        {j for _, j in taken}.union(copied["b"]),
    )
    left_a = [i for i in found.left_a if i not in gone_a]
    left_b = [j for j in found.left_b if j not in gone_b]
    rest = Alignment(found.a, found.b, found.same, found.changed, left_a, left_b)
    here_a, here_b = map(by_place, rest.places())
    links["place"] = []  # all that is left of both sides in one place
    for place in here_a.keys() & here_b.keys():
        a, b = here_a[place], here_b[place]
        links["place"] += [*((i, b[0]) for i in a), *((a[0], j) for j in b)]
    links["name"] = [*named(rest), *_turned(named(rest.mirrored()))]
    nodes = [("a", i) for i in (*found.left_a, *(i for i, _ in found.changed))]
    nodes += [("b", j) for j in (*found.left_b, *(j for _, j in found.changed))]
    parts = {node: {node} for node in nodes}
    signs: defaultdict[Node, set[str]] = defaultdict(set)
    for sign, pairs in links.items():
        for i, j in pairs:
            _join(parts, ("a", i), ("b", j))
            signs["a", i].add(sign)
    for side, copies in copied.items():
        for copy, kernel in copies.items():
            _join(parts, (side, copy), (side, kernel))
    # work of one side alone, of one group in one place, is one removal or one addition
    for side, work, places in zip("ab", (found.a, found.b), found.places(), strict=True):
        both = {id(members) for (one, _), members in parts.items() if one != side}
        first: dict[tuple[int, str], int] = {}
        for at, spot in places.items():
            if id(parts[side, at]) not in both:
                start = first.setdefault((spot, work[at].group), at)
                _join(parts, (side, start), (side, at))
    groups = {id(members): members for members in parts.values()}.values()
    return [_replacement(members, signs) for members in sorted(map(sorted, groups))]


def by_group(part: Replacement, found: Alignment, unlike: Container[str]) -> list[Replacement]:
    """A replacement in parts: one for each group that both sides have here, or that both sides
    have in work that is not the same (`unlike`); the others took each other's place.
    """
    groups_a, groups_b = {found.a[i].group for i in part.a}, {found.b[j].group for j in part.b}
    own = sorted(
        each for each in groups_a | groups_b if each in unlike or each in groups_a & groups_b
    )
    chosen = [{group} for group in own] + [(groups_a | groups_b) - {*own}]
    every = (
        Replacement(
            tuple(i for i in part.a if found.a[i].group in names),
            tuple(j for j in part.b if found.b[j].group in names),
            part.sign,
        )
        for names in chosen
    )
    return [each for each in every if each.a or each.b]


def unlike_groups(found: Alignment) -> frozenset[str]:
    """Groups of which both sides have work that is not the same."""
    a = {found.a[i].group for i in (*found.left_a, *(i for i, _ in found.changed))}
    b = {found.b[j].group for j in (*found.left_b, *(j for _, j in found.changed))}
    return frozenset(a & b)


def _join(parts: Parts, one: Node, other: Node) -> None:
    """Make one set of the sets that hold two nodes."""
    small, large = sorted((parts[one], parts[other]), key=len)
    if small is not large:
        large |= small
        parts.update(dict.fromkeys(small, large))


def _replacement(nodes: Sequence[Node], signs: Mapping[Node, set[str]]) -> Replacement:
    a, b = (tuple(at for side, at in nodes if side == which) for which in ("a", "b"))
    given = set().union(*(signs.get(node, ()) for node in nodes))
    return Replacement(a, b, next((sign for sign in SIGNS if sign in given), ""))


def _turned(pairs: Iterable[Pair]) -> Iterator[Pair]:
    return ((i, j) for j, i in pairs)
