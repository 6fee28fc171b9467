"""What of B stands where something of A stood: the GPU work that is not the same, in parts.

The kernels that correspond and keep their order cut both launch orders into places. All that is
left of A in one place was replaced by all that is left of B in that place, so nothing is counted
twice and nothing is left out. Places are joined where the trace shows that one kernel does the work
of both:

- `name`: an Inductor kernel lists the ops it came from, and a kernel that ran one of those ops has
  no counterpart in its own place. A Triton kernel of another author lists none: there the role
  decides whether it can hold the other.
- `epilogue`: a matrix product changed its op or its epilogue (`aten::mm` to `aten::addmm`, `bias`),
  and the pointwise kernel that followed it is left.
- `merged`: a matrix product has the FLOPs of several equal ones, and those are left.
- a memcpy or memset belongs to the kernel that the same call of an op launched.

Every rule reads the same from both ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct

from foretrace import families
from foretrace.comparison.align import Alignment, Pair
from foretrace.comparison.launched import Kernel

# A kernel may lie this many kept kernels away from the one that names it. In eager GeGLU the
# product `up` runs between gelu and mul, and both end in the one kernel after it. On the recorded
# ladder three finds what Inductor fused in the MLP, the block, the model and the training step;
# six finds no more.
NEAR = 3

_ELEMENTWISE = frozenset({"pointwise", "copy", "memcpy"})
_ROWS = _ELEMENTWISE | {"reduction", "normalization", "softmax", "random", "scatter_gather"}
# What a kernel of each role can hold of others.
HOLDS = {
    "pointwise": _ELEMENTWISE | {"random"},
    **dict.fromkeys(("reduction", "normalization", "softmax", "other"), _ROWS),
    "attention": _ROWS | {"gemm", "gemv"},
    "gemm": _ROWS | {"gemm"},
    "optimizer": _ELEMENTWISE | {"optimizer"},
}
SIGNS = ("name", "epilogue", "merged", "place", "pair")  # the strongest first
COMPILED = ("inductor_triton", "inductor_cpp", "inductor_backend")  # their names list ops
TRITON = ("liger_triton", "user_triton")
# A kernel of these roles that replaces several is a fusion whoever wrote it.
WHOLE_OPS = ("attention", "normalization", "softmax", "optimizer")
PLAIN_PRODUCTS = ("aten::mm", "aten::bmm", "aten::matmul")
Node = tuple[str, int]  # a side and a position


class Replacement(Struct, frozen=True):
    """Positions in A and in B that stand for each other; one side is empty for removed or added
    work. `sign` is what joined them: `name`, `epilogue`, `merged`, `pair` or `place`.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    sign: str


def replacements(found: Alignment) -> list[Replacement]:
    """Every position that is not the same, in exactly one of them, in launch order."""
    links = {
        "pair": found.changed,
        "epilogue": [*_epilogues(found), *_turned(_epilogues(found.mirrored()))],
        "merged": [*_merged(found), *_turned(_merged(found.mirrored()))],
    }
    beside = {"a": _beside(found.a, found.same, 0), "b": _beside(found.b, found.same, 1)}
    # what a product took in, and what its call copied, has its counterpart, whatever else runs in
    # its place
    taken = [*links["epilogue"], *links["merged"]]
    rest = _without(
        found,
        {i for i, _ in taken}.union(beside["a"]),
        {j for _, j in taken}.union(beside["b"]),
    )
    links["place"] = list(_one_place(rest))
    links["name"] = [*_named(rest), *_turned(_named(rest.mirrored()))]
    parts = _Parts()
    for i in (*found.left_a, *(i for i, _ in found.changed)):
        parts.join(("a", i), ("a", i))
    for j in (*found.left_b, *(j for _, j in found.changed)):
        parts.join(("b", j), ("b", j))
    signs: defaultdict[Node, set[str]] = defaultdict(set)
    for sign, pairs in links.items():
        for i, j in pairs:
            parts.join(("a", i), ("b", j))
            signs["a", i].add(sign)
    for side, copies in beside.items():
        for copy, kernel in copies.items():
            parts.join((side, copy), (side, kernel))
    _join_lone(found, parts)
    return [_replacement(members, signs) for members in parts.groups()]


class _Parts:
    """Sets of nodes that only grow together."""

    def __init__(self) -> None:
        self.parent: dict[Node, Node] = {}

    def top(self, node: Node) -> Node:
        self.parent.setdefault(node, node)
        while self.parent[node] != node:
            self.parent[node] = self.parent[self.parent[node]]
            node = self.parent[node]
        return node

    def join(self, one: Node, other: Node) -> None:
        first, second = sorted((self.top(one), self.top(other)))
        self.parent[second] = first

    def groups(self) -> list[list[Node]]:
        found: defaultdict[Node, list[Node]] = defaultdict(list)
        for node in sorted(self.parent):
            found[self.top(node)].append(node)
        return list(found.values())


def _replacement(nodes: Sequence[Node], signs: Mapping[Node, set[str]]) -> Replacement:
    a, b = (tuple(at for side, at in nodes if side == which) for which in ("a", "b"))
    given = set().union(*(signs.get(node, ()) for node in nodes))
    return Replacement(a, b, next((sign for sign in SIGNS if sign in given), ""))


def _without(found: Alignment, gone_a: Container[int], gone_b: Container[int]) -> Alignment:
    """The alignment without some of what is left."""
    left_a = [i for i in found.left_a if i not in gone_a]
    left_b = [j for j in found.left_b if j not in gone_b]
    return Alignment(found.a, found.b, found.same, found.changed, left_a, left_b)


def _turned(pairs: Iterable[Pair]) -> Iterator[Pair]:
    return ((i, j) for j, i in pairs)


def _one_place(found: Alignment) -> Iterator[Pair]:
    """Links between all that is left of both sides in one place."""
    places_a, places_b = found.places()
    a, b = _by_place(places_a), _by_place(places_b)
    for place in a.keys() & b.keys():
        yield from ((i, b[place][0]) for i in a[place])
        yield from ((a[place][0], j) for j in b[place])


def _by_place(places: Mapping[int, int]) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for at, place in places.items():
        found[place].append(at)
    return dict(found)


def _join_lone(found: Alignment, parts: _Parts) -> None:
    """Work of one side alone, in one place, is one removal or one addition."""
    for side, places in zip("ab", found.places(), strict=True):
        both = {parts.top((one, at)) for one, at in parts.parent if one != side}
        for members in _by_place(places).values():
            lone = [at for at in members if parts.top((side, at)) not in both]
            for at in lone[1:]:
                parts.join((side, lone[0]), (side, at))


def ops_in_name(kernel: Kernel) -> frozenset[str]:
    """The ops that an Inductor kernel's name lists; they are its origins, not what it computes."""
    ops = families.decode(kernel.name).get("ops")
    named = ops if isinstance(ops, list | tuple) else ()
    return frozenset(str(op).strip("_") for op in named)


def bare(op: str) -> str:
    """`aten::add_` -> `add`."""
    return op.rpartition("::")[2].strip("_")


def can_hold(holder: Kernel, other: Kernel) -> bool:
    """Whether a kernel of this role can do the work of the other."""
    return other.role in HOLDS.get(holder.role, frozenset())


def _named(found: Alignment) -> Iterator[Pair]:
    """Links from kernels of B to the kernels of A near by that they name, or can hold where they
    are whole ops; where one of the two has no counterpart in its own place.
    """
    here_a, here_b = map(_by_place, found.places())
    near = []
    for p, away in product(here_a, range(-NEAR, NEAR + 1)):
        if (q := p + away) in here_b and away and (p not in here_b or q not in here_a):
            for i, j in product(here_a[p], here_b[q]):
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
    yield from _turned(best_b.items())


def _takes(taker: Kernel, other: Kernel) -> bool:
    """Whether a kernel may do the work of another that runs elsewhere."""
    if not can_hold(taker, other):
        return False
    named = ops_in_name(taker)
    if named or taker.family in COMPILED:
        return any(bare(op) in named for op in other.path)
    whole = taker.family in TRITON or taker.role in WHOLE_OPS
    return whole and other.op is not None and other.family not in COMPILED


def _epilogues(found: Alignment) -> Iterator[Pair]:
    """Products of B that include the pointwise kernel that followed their counterpart in A."""
    left = set(found.left_a)
    for i, j in sorted(found.changed):
        if found.b[j].role == "gemm" and _adds(found.a[i], found.b[j]):
            after = next((k for k in range(i + 1, len(found.a)) if found.a[k].is_kernel), -1)
            if after in left and found.a[after].role == "pointwise":
                yield after, j


def _merged(found: Alignment) -> Iterator[Pair]:
    """Products of B as large as several equal ones of A together, such as gate and up in one."""
    left = [i for i in found.left_a if found.a[i].role == "gemm"]
    for i, j in sorted(found.changed):
        before, after = found.a[i], found.b[j]
        if not before.flops or after.role != "gemm":
            continue
        times, rest = divmod(after.flops or 0, before.flops)
        equal = [k for k in left if found.a[k].flops == before.flops][: times - 1]
        if not rest and times > 1 and len(equal) == times - 1:
            yield from ((k, j) for k in equal)
            left = [k for k in left if k not in equal]


def _adds(before: Kernel, after: Kernel) -> bool:
    """Whether a product does more than it did."""
    old, new = (set(families.decode(each.name).get("epilogue") or ()) for each in (before, after))
    return bool(new - old) or (before.op in PLAIN_PRODUCTS and after.op not in PLAIN_PRODUCTS)


def _beside(work: Sequence[Kernel], same: Sequence[Pair], side: int) -> dict[int, int]:
    """Memcpys and memsets that are not the same -> a kernel of the same call that is not either."""
    unlike = sorted(set(range(len(work))) - {pair[side] for pair in same})
    kernels = {work[at].call: at for at in reversed(unlike) if work[at].is_kernel}
    copies = [at for at in unlike if not work[at].is_kernel and work[at].call >= 0]
    return {at: kernels[work[at].call] for at in copies if work[at].call in kernels}
