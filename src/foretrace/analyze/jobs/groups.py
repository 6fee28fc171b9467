"""Process groups over all ranks of a job: one label for each, whatever each rank calls it.

A rank names its groups by number. The number is the same on all members, with two exceptions. A
group that was split from another has the number that its sisters have: only the list of its members
tells them apart. And a program may name a group itself, differently on each rank: the list of
members then says that they are one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import polars as pl

from foretrace.schema.jobs import JobGroup, RankFacts

_DEFAULT = "0"  # the name of the group of all ranks, which only newer versions describe
Members = tuple[int, ...]
Named = tuple[str, Members]

LABELS = {
    "rank": pl.Int64,
    "group": pl.String,
    "label": pl.String,
    "expected": pl.Int64,
}


def labels(facts: Iterable[RankFacts]) -> pl.DataFrame:
    """The label of each group of each rank; `expected` counts its members whose files were read.

    `expected` is null where the files do not list the members.
    """
    owners = _owners(facts)
    read = {rank for ranks in owners.values() for rank, _ in ranks}
    texts = _texts(_joined(owners))
    rows = [
        (rank, called, text, len(read.intersection(named[1])) if named[1] else None)
        for named, (text, ranks) in texts.items()
        for rank, called in ranks
    ]
    found = pl.DataFrame(sorted(rows), LABELS, orient="row")
    return found.unique(("rank", "group"), keep="first", maintain_order=True)


def _owners(facts: Iterable[RankFacts]) -> dict[Named, list[tuple[int, str]]]:
    """Who has a group of this name and these members, and how the rank calls it.

    A rank that lists no members takes the list of the others, if there is only one.
    """
    found: dict[Named, list[tuple[int, str]]] = defaultdict(list)
    for each in facts:
        if each.rank is not None:
            for group in each.groups:
                name = _DEFAULT if _is_default(group) else group.name
                found[name, tuple(sorted(group.ranks))].append((each.rank, group.name))
    lists = defaultdict(list)
    for name, members in found:
        lists[name].append(members)
    for name, (*none, members) in ((name, sorted(several)) for name, several in lists.items()):
        if none == [()]:
            found[name, members] += found.pop((name, ()))
    return found


def _is_default(group: JobGroup) -> bool:
    return "default_pg" in (group.name, group.description)


def _joined(owners: dict[Named, list[tuple[int, str]]]) -> dict[Named, list[tuple[int, str]]]:
    """Groups of the same members become one where no rank has both."""
    found: dict[Named, list[tuple[int, str]]] = {}
    first: dict[Members, list[Named]] = defaultdict(list)
    for named, ranks in sorted(owners.items()):
        own = {rank for rank, _ in ranks}
        same = (
            each
            for each in first[named[1]]
            if named[1] and own.isdisjoint(rank for rank, _ in found[each])
        )
        if (into := next(same, None)) is None:
            first[named[1]].append(named)
            found[named] = list(ranks)
        else:
            found[into] += ranks
    return found


def _texts(
    found: dict[Named, list[tuple[int, str]]],
) -> dict[Named, tuple[str, list[tuple[int, str]]]]:
    """The name, and the lowest member where several groups have that name."""
    members: dict[str, list[Members]] = defaultdict(list)
    for name, ranks in found:
        members[name].append(ranks)
    text = {
        (name, ranks): told
        for name, several in members.items()
        for ranks, told in zip(several, _told(name, several), strict=True)
    }
    return {named: (text[named], ranks) for named, ranks in found.items()}


def _told(name: str, several: list[Members]) -> Iterator[str]:
    lowest = [ranks[0] if ranks else None for ranks in several]
    for ranks, low in zip(several, lowest, strict=True):
        if len(several) == 1 or low is None:
            yield name
        elif lowest.count(low) == 1:
            yield f"{name} of rank {low}"
        else:
            yield f"{name} of {len(ranks)} ranks from {low} to {ranks[-1]}"
