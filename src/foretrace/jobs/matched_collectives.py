"""Which events on which ranks are one collective, and the process groups that they belong to.

Members of a group give its collectives the same numbers (`Seq`): group, kind and number identify a
collective. `Comms Id` does so as well, also for groups of one name; it is used if a file does not
list the members of its groups. Without numbers the order within a step decides. Then a rank that
counts more or fewer collectives of a kind in a step than most members do is not matched: it is not
known which of its collectives the others lack. Each rank numbers its sends and receives by itself.
They are paired by sender, receiver and order.

A rank names its groups by number. The number is the same on all members, with two exceptions. A
group that was split from another has the number of the other groups of that split: only the list of
members distinguishes them. And a program may name a group itself, differently on each rank: the
list of members then shows that it is one group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.jobs.whole_job import Job, JobGroup, RankFacts, columns
from foretrace.trace.intervals import Bools

_DEFAULT = "0"  # the name of the group of all ranks, which only newer versions describe
Members = tuple[int, ...]
Named = tuple[str, Members]
Owners = dict[Named, list[tuple[int, str]]]  # the ranks of a group, with the name that each uses

_ROLES = columns("rank group:s label:s expected size role:s")
_SAYS_NOTHING = ("", "undefined")  # torch writes the latter where the program describes nothing


@lru_cache(maxsize=1)
def roles(job: Job) -> pl.DataFrame:
    """The groups of each rank: rank, group (its name there), label, size, `expected` (its members
    whose files were read, null where no file lists them), and role: what the program says about
    the group, else its label.
    """
    stated: dict[tuple[int | None, str], JobGroup] = {}
    for each in job.members:
        for group in each.groups:
            stated.setdefault((each.rank, group.name), group)
    owners = _owners(job.members)
    read = {rank for ranks in owners.values() for rank, _ in ranks}
    joined = _joined(owners)
    texts, rows = _texts(joined), []
    for named, ranks in joined.items():
        expected = len(read.intersection(named[1])) if named[1] else None
        for rank, name in ranks:
            group, label = stated[rank, name], texts[named]
            role = label if group.description in _SAYS_NOTHING else group.description
            rows.append((rank, name, label, expected, group.size, role))
    rows.sort(key=lambda row: row[:3])
    found = pl.DataFrame(rows, _ROLES, orient="row")
    return found.unique(("rank", "group"), keep="first", maintain_order=True)


def _owners(facts: Iterable[RankFacts]) -> Owners:
    """The ranks that have a group of this name and these members.

    A rank that lists no members takes the list of the others, if there is only one.
    """
    found: Owners = defaultdict(list)
    for each in facts:
        if each.rank is not None:
            for group in each.groups:
                default = "default_pg" in (group.name, group.description)
                name = _DEFAULT if default else group.name
                found[name, tuple(sorted(group.ranks))].append((each.rank, group.name))
    lists = defaultdict(list)
    for name, members in found:
        lists[name].append(members)
    for name, (*none, members) in ((name, sorted(several)) for name, several in lists.items()):
        if none == [()]:
            found[name, members] += found.pop((name, ()))
    return found


def _joined(owners: Owners) -> Owners:
    """Groups of the same members become one where no rank has both."""
    found: Owners = {}
    several: dict[Members, list[Named]] = defaultdict(list)
    # of a list of members and a rank: all before this place have the rank. A file may list many
    # thousand groups of the same members
    free: dict[tuple[Members, int], int] = defaultdict(int)
    for named, ranks in sorted(owners.items()):
        members, own = named[1], {rank for rank, _ in ranks}
        same = several[members]
        place = max(free[members, rank] for rank in own) if members else len(same)
        while place < len(same) and not own.isdisjoint(rank for rank, _ in found[same[place]]):
            place += 1
        if place == len(same):
            same.append(named)
            found[named] = []
        found[same[place]] += ranks
        for rank in own:
            free[members, rank] += free[members, rank] == place
    return found


def _texts(groups: Iterable[Named]) -> dict[Named, str]:
    """The name, and the lowest member where several groups have that name."""
    names: dict[str, list[Members]] = defaultdict(list)
    for name, members in groups:
        names[name].append(members)
    found: dict[Named, str] = {}
    for name, several in names.items():
        lowest = Counter(members[0] for members in several if members)
        for members in several:
            low = members[0] if members else None
            if len(several) == 1 or low is None:
                found[name, members] = name
            elif lowest[low] == 1:
                found[name, members] = f"{name} of rank {low}"
            else:
                ranks = f"{len(members)} ranks from {low} to {members[-1]}"
                found[name, members] = f"{name} of {ranks}"
    return found


PAIRED = ("send", "receive", "send-receive")  # the last of unknown peers, from the kernel alone
# every rank has to state the same size; others may be uneven, or known to the root alone
OF_ONE_SIZE = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce")
_CHANNEL = ("label", "sender", "receiver", "collective")
_KEPT = (
    "rank", "id", "step", "seq", "dtype", "message_bytes", "group_size", "start_ns", "end_ns",
)  # fmt: skip


class MatchedCollectives(Struct, frozen=True):
    """`collectives`: collective_id, group, collective (its kind), seq, how (seq or order), dtype,
    message_bytes, group_size, present, expected, step, sender, receiver, unmatched. `expected`
    counts the members whose files were read: where fewer are `present`, the others did not record
    it. A send and its receive are one collective, called send. `unmatched` is `peer` for sends that
    do not name the other rank, `order` where numbers are missing and the rank has another count,
    and `group` where several groups have one name.

    `arrivals`: collective_id, rank, id, step, start_ns, end_ns, on the clock of each rank; a rank
    whose recording was cut takes the step from the others. `members`: group, rank. `unequal`:
    collective_id, rank and message_bytes where the ranks of a collective state several sizes.
    """

    collectives: pl.DataFrame
    arrivals: pl.DataFrame
    members: pl.DataFrame
    unequal: pl.DataFrame

    @property
    def shared(self) -> pl.DataFrame:
        """The collectives that at least two ranks recorded."""
        return self.collectives.filter(pl.col("present") > 1)

    def incomplete(self) -> pl.DataFrame:
        """Collectives that only some ranks recorded: group, collective, count, and the ranks that
        lack at least one.
        """
        kind = ("group", "collective")
        matched = self.collectives.filter(pl.col("unmatched").is_null())
        some = matched.filter(pl.col("present") < pl.col("expected"))
        count = some.group_by(kind).agg(pl.len().alias("count"))
        came = self.arrivals.join(some, on="collective_id").group_by(*kind, "rank").len("came")
        missed = (
            count.join(self.members, on="group")
            .join(came, on=(*kind, "rank"), how="left", nulls_equal=True)
            .filter(pl.col("came").fill_null(0) < pl.col("count"))
        )
        lacking = missed.group_by(kind).agg(pl.col("rank").sort().alias("ranks"))
        return count.join(lacking, on=kind, how="left", nulls_equal=True).sort(
            "count", *kind, descending=(True, False, False)
        )

    def unmatched(self) -> pl.DataFrame:
        """Collectives that no rule matches: group, collective, unmatched (peer, order or group),
        count, ranks.
        """
        kind = ("group", "collective", "unmatched")
        some = self.collectives.filter(pl.col("unmatched").is_not_null())
        return (
            self.arrivals.join(some.select("collective_id", *kind), on="collective_id")
            .group_by(kind)
            .agg(pl.len().alias("count"), pl.col("rank").unique().sort().alias("ranks"))
            .sort("count", *kind, descending=(True, False, False, False))
        )


def match(job: Job) -> MatchedCollectives:
    """Every collective of the job with the ranks that took part in it."""
    told = roles(job)
    paired = pl.col("collective").is_in(PAIRED)
    sends, rank, peer = pl.col("collective") == "send", pl.col("rank"), pl.col("peer")
    # where a group's members are not listed, the id of the collective stands for them
    unlisted = pl.col("expected").is_null() & pl.col("comms_id").is_not_null()
    identity = pl.when(unlisted).then(pl.col("comms_id").hash())
    rows = (
        job.table("collectives")
        .join(told.lazy().drop("size", "role"), on=("rank", "group"), how="left", nulls_equal=True)
        .with_columns(
            pl.coalesce("label", "group", pl.lit("")).alias("label"),
            pl.coalesce(identity, pl.col("seq").cast(pl.UInt64, strict=False)).alias("number"),
            pl.when(paired).then(pl.when(sends).then(rank).otherwise(peer)).alias("sender"),
            pl.when(paired).then(pl.when(sends).then(peer).otherwise(rank)).alias("receiver"),
            pl.when(paired).then(pl.lit("send")).otherwise("collective").alias("collective"),
            pl.col("dtype").cast(pl.Categorical),
        )
    )
    channels = _channels(rows)
    found = (
        rows.join(channels.lazy(), on=_CHANNEL, nulls_equal=True)
        .select(*_KEPT, "channel", pl.when("numbered").then(None).otherwise("step").alias("part"),
                pl.when("numbered").then("number").alias("number"), "numbered", "order")
        .collect(engine="streaming")
    )  # fmt: skip
    said = told.select(pl.col("label").alias("group"), "rank")
    met = found.select("channel", "rank").unique().join(channels, on="channel")
    met = met.select(pl.col("label").alias("group"), "rank")
    members = pl.concat([said, met]).unique().sort("group", "rank")
    found = _uncrowded(_met(_placed(found, channels)))
    equal = pl.col("channel").is_in(
        channels.filter(pl.col("collective").is_in(OF_ONE_SIZE))["channel"].implode()
    )
    size = pl.col("message_bytes")
    collectives = found.group_by("collective_id").agg(
        pl.col("channel", "numbered", "apart").first(),
        pl.len().cast(pl.Int64).alias("present"),
        pl.col("seq", "step").min(),
        pl.col("dtype").first(),
        # one rank may state a wrong size
        pl.when(equal.first()).then(size.quantile(0.5, "lower")).otherwise(size.max())
        .cast(pl.Int64).alias("message_bytes"),
        pl.col("group_size").max(),
    )  # fmt: skip
    step = pl.col("step").fill_null(pl.col("step").min().over("collective_id"))
    arrivals = found.select("collective_id", "rank", "id", step, "start_ns", "end_ns")
    differ = found.filter(equal).filter(size.min().over("collective_id") < size)["collective_id"]
    unequal = found.filter(pl.col("collective_id").is_in(differ.unique().implode()))
    unequal = unequal.select("collective_id", "rank", "message_bytes")
    return MatchedCollectives(_named(collectives, channels, members), arrivals, members, unequal)


def _channels(rows: pl.LazyFrame) -> pl.DataFrame:
    """Groups, kinds and pairs of ranks: no collective belongs to two channels. `numbered` says that
    all collectives of the channel have numbers which are equal on all ranks.
    """
    known = pl.col("number").is_not_null().all() & (pl.col("collective").first() != "send")
    found = rows.group_by(_CHANNEL).agg(known.fill_null(True).alias("numbered"))
    ordered = found.collect(engine="streaming").sort(_CHANNEL, nulls_last=True)
    return ordered.with_row_index("channel")


def _placed(found: pl.DataFrame, channels: pl.DataFrame) -> pl.DataFrame:
    """Collectives with `place`: which of those with the same number it is, or of those in the step.

    `apart` has the rank where the order in the step does not match that of the others.
    """
    run = ("channel", "rank", "part", "number")
    found = found.sort(*run, "order")
    begins = _changes(found, run)
    runs = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    place = np.arange(len(runs)) - first[runs]
    length = np.diff(first, append=len(runs))
    counts = found.select("channel", "rank", "part", "numbered").filter(pl.Series(begins))
    odd = _odd(counts.with_columns(pl.Series("count", length)), channels)
    apart = pl.Series("apart", odd)[runs] if len(runs) else pl.Series("apart", [], pl.Int64)
    return found.drop("order").with_columns(pl.Series("place", place), apart)


def _odd(counts: pl.DataFrame, channels: pl.DataFrame) -> pl.Series:
    """The rank, for runs by order whose count is not that of most ranks, and for sends of which
    only one side is known.
    """
    count, within = pl.col("count"), ("channel", "part")
    usual = counts.filter(~pl.col("numbered")).group_by(within).agg(
        count.mode().first().alias("usual"), (count.mode().len() == 1).alias("clear")
    )  # fmt: skip
    pairs = channels.select(
        "channel", (pl.col("sender").is_null() != pl.col("receiver").is_null()).alias("half")
    )
    odd = (count != pl.col("usual")) | ~pl.col("clear") | pl.col("half")
    return (
        counts.join(usual, on=within, how="left", nulls_equal=True, maintain_order="left")
        .join(pairs, on="channel", how="left", maintain_order="left")
        .select(pl.when(~pl.col("numbered") & odd).then("rank"))
        .to_series()
    )


def _met(found: pl.DataFrame) -> pl.DataFrame:
    """Events with their `collective_id`, which does not depend on the order of the files."""
    key = ("channel", "part", "number", "place", "apart")
    found = found.sort(*key, "rank")
    collective = np.cumsum(_changes(found, key)) - 1
    return found.with_columns(pl.Series("collective_id", collective, pl.UInt32))


def _uncrowded(found: pl.DataFrame) -> pl.DataFrame:
    """If more ranks match than a group has, several groups have its name: none is matched."""
    came, size = pl.len().alias("came"), pl.col("group_size").max()
    met = (
        found.filter(pl.col("group_size") > 1).group_by("collective_id", "channel").agg(came, size)
    )
    crowded = met.filter(pl.col("came") > pl.col("group_size"))["channel"].unique()
    if crowded.is_empty():
        return found
    apart = pl.when(pl.col("channel").is_in(crowded.implode())).then("rank").otherwise("apart")
    return _met(found.with_columns(apart.alias("apart")))


def _changes(found: pl.DataFrame, key: tuple[str, ...]) -> Bools:
    """Which rows of a sorted frame begin a new combination of values."""
    changes = np.zeros(len(found), bool)
    changes[:1] = True
    for name in key:
        differs = found[name].ne_missing(found[name].shift(1))
        changes |= differs.to_numpy()
    return changes


def _named(
    collectives: pl.DataFrame, channels: pl.DataFrame, members: pl.DataFrame
) -> pl.DataFrame:
    """Collectives with the names of their channel, and how many ranks could have recorded each."""
    sizes = members.group_by("group").len("expected")
    read = members["rank"].unique().implode()
    pair = pl.col("sender").is_in(read).cast(pl.Int64) + pl.col("receiver").is_in(read)
    paired = pl.col("collective") == "send"
    how = pl.when("numbered").then(pl.lit("seq")).otherwise(pl.lit("order"))
    half = pl.col("sender").is_null() != pl.col("receiver").is_null()
    why = (
        pl.when(half).then(pl.lit("peer"))
        .when("numbered").then(pl.lit("group")).otherwise(pl.lit("order"))
    )  # fmt: skip
    return (
        collectives.join(channels.drop("numbered").rename({"label": "group"}), on="channel")
        .join(sizes, on="group", how="left")
        .select(
            "collective_id", "group", "collective",
            pl.when(~paired).then("seq").alias("seq"),
            how.alias("how"),
            pl.col("dtype").cast(pl.String), "message_bytes", "group_size", "present",
            pl.when(paired).then(pair.fill_null(2)).otherwise("expected").cast(pl.Int64)
            .alias("expected"),
            "step", "sender", "receiver",
            pl.when(pl.col("apart").is_not_null()).then(why).alias("unmatched"),
        )
        .sort("collective_id")
    )  # fmt: skip
