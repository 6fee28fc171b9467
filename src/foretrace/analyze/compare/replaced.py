"""What of B stands where something of A stood: the GPU work that is not the same, in parts.

The kernels that correspond and keep their order cut both launch orders into places. All that is
left of A in one place was replaced by all that is left of B in that place, so nothing is counted
twice and nothing is left out. Places are joined where `absorbed` finds that one kernel does the
work of both.

Every rule reads the same from both ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from foretrace.analyze.compare.absorbed import beside, by_place, epilogues, merged, named
from foretrace.analyze.compare.align import Alignment, Pair

SIGNS = ("name", "epilogue", "merged", "place", "pair")  # the strongest first
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
        "epilogue": [*epilogues(found), *_turned(epilogues(found.mirrored()))],
        "merged": [*merged(found), *_turned(merged(found.mirrored()))],
    }
    copied = {"a": beside(found.a, found.same, 0), "b": beside(found.b, found.same, 1)}
    # what a matmul took in, and what its call copied, has its counterpart, whatever else runs in
    # its place
    taken = [*links["epilogue"], *links["merged"]]
    rest = _without(
        found,
        {i for i, _ in taken}.union(copied["a"]),
        {j for _, j in taken}.union(copied["b"]),
    )
    links["place"] = list(_one_place(rest))
    links["name"] = [*named(rest), *_turned(named(rest.mirrored()))]
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
    for side, copies in copied.items():
        for copy, kernel in copies.items():
            parts.join((side, copy), (side, kernel))
    _join_lone(found, parts)
    return [_replacement(members, signs) for members in parts.groups()]


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
    a, b = by_place(places_a), by_place(places_b)
    for place in a.keys() & b.keys():
        yield from ((i, b[place][0]) for i in a[place])
        yield from ((a[place][0], j) for j in b[place])


def _join_lone(found: Alignment, parts: _Parts) -> None:
    """Work of one side alone, of one group in one place, is one removal or one addition."""
    for side, work, places in zip("ab", (found.a, found.b), found.places(), strict=True):
        both = {parts.top((one, at)) for one, at in parts.parent if one != side}
        first: dict[tuple[int, str], int] = {}
        for at, place in places.items():
            if parts.top((side, at)) not in both:
                start = first.setdefault((place, work[at].group), at)
                parts.join((side, start), (side, at))
