"""How fast the network is: bandwidths of the transfer alone, and who is slower than its equals.

The ranks of a collective leave it together, and the last to come stays shortest: its stay is the
transfer, without waiting, and needs no clock. Groups are equal if they have as many ranks on as
many hosts. A host is slow if every group of it is slower than its equals.

When it is wrong: where a rank did not record the collective, the last to come may be unknown, and
the bandwidth is a lower bound (`at_least`). A collective that shares the links with others, or the
GPU with kernels, looks slow. A host that all groups have in common has no equals to compare with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foretrace.trace.collectives import bus_factor

if TYPE_CHECKING:
    from foretrace.jobs.matched_collectives import MatchedCollectives
    from foretrace.jobs.whole_job import Job

SIZES = 4.0  # the factor that a class of sizes spans
# A group is an outlier if even its fastest collective is below this part of what is usual for its
# equals. A link that lost lanes, or a host without one of its NICs, is at half or below; medians of
# equal groups differ by a few percent.
SLOW = 0.8
_FEW = 2  # of two equal groups, the faster one shows what the slower one could do
_FEW_LINKS = 3  # two links may be the two directions of one pipeline
PAIR = pl.col("collective") == "send"
LINK = pl.when(PAIR).then(pl.format("rank {} to rank {}", "sender", "receiver")).otherwise("group")
_KIND = ("collective", "dtype", "size_class", "group_size", "hosts")


def transfers(job: Job, matched: MatchedCollectives) -> pl.DataFrame:
    """One row per collective whose message is known: its transfer, bandwidths and hosts."""
    stay = pl.col("end_ns") - pl.col("start_ns")
    hosts = {each.rank: each.host for each in job.members}
    host = pl.col("rank").replace_strict(hosts, default="", return_dtype=pl.String)
    met = matched.arrivals.group_by("collective_id").agg(
        stay.min().alias("transfer_ns"), host.n_unique().alias("hosts")
    )
    sizes = pl.col("message_bytes").log(SIZES).floor()
    return (
        matched.collectives.join(met, on="collective_id")
        .with_columns(
            pl.when(PAIR).then(2).otherwise("group_size").cast(pl.Int64).alias("group_size"),
            LINK.alias("link"),
        )
        .filter(
            pl.col("message_bytes") > 0, pl.col("transfer_ns") > 0, pl.col("group_size") > 1
        )
        .with_columns(
            pl.lit(SIZES).pow(sizes).round().cast(pl.Int64).alias("size_class"),
            (pl.col("present") < pl.col("group_size")).alias("at_least"),
            (pl.col("message_bytes") / pl.col("transfer_ns")).alias("algorithm_gbps"),
        )
        .with_columns((pl.col("algorithm_gbps") * bus_factor()).alias("bus_gbps"))
    )  # fmt: skip


def bandwidths(found: pl.DataFrame) -> pl.DataFrame:
    """Transfers by kind, size and group, the most time first; complete ones where there are any.

    Bandwidths are medians in 10^9 bytes per second; `best_bus_gbps` is that of the fastest.
    """
    kinds = (*_KIND, "group")
    chosen = found.filter(~pl.col("at_least") | pl.col("at_least").all().over(kinds))
    return (
        chosen.group_by(kinds)
        .agg(
            pl.len().alias("count"),
            pl.col("message_bytes").median().cast(pl.Int64),
            pl.col("transfer_ns").sum().alias("total_ns"),
            pl.col("transfer_ns", "algorithm_gbps", "bus_gbps").median(),
            pl.col("bus_gbps").max().alias("best_bus_gbps"),
            pl.col("at_least").any(),
        )
        .sort("total_ns", *kinds, descending=[True, *[False] * len(kinds)])
    )


def outliers(job: Job, matched: MatchedCollectives, found: pl.DataFrame) -> pl.DataFrame:
    """Hosts, groups and links below `SLOW` of their equals: kind, what, collective, message_bytes,
    bus_gbps, usual_gbps, count. A group that has a slow host is not named again.
    """
    equal = (
        found.filter(~pl.col("at_least"))
        .group_by(*_KIND, "group", "link")
        .agg(pl.len().alias("count"), pl.col("message_bytes").median().cast(pl.Int64),
             pl.col("bus_gbps").max().alias("best_gbps"), pl.col("bus_gbps").median(),
             pl.col("collective_id").first())
        .with_columns(pl.col("bus_gbps").quantile(0.5, "higher").over(_KIND).alias("usual_gbps"))
        .filter(pl.len().over(_KIND) >= pl.when(PAIR).then(_FEW_LINKS).otherwise(_FEW))
        .with_columns((pl.col("best_gbps") / pl.col("usual_gbps")).alias("part"))
    )  # fmt: skip
    names = {each.rank: each.host for each in job.members if each.host}
    host = pl.col("rank").replace_strict(names, default=None, return_dtype=pl.String)
    pairs = matched.arrivals.select("collective_id", host.alias("host")).drop_nulls().unique()
    members = equal.join(pairs, on="collective_id")  # once for each of their hosts
    groups, own = pl.col("collective_id").n_unique().over(_KIND), pl.len().over(*_KIND, "host")
    hosts = (
        members.filter(own < groups)
        .filter(pl.col("part").max().over("host") < SLOW)
        .sort("part", *_KIND, "link")
        .group_by("host", maintain_order=True)
        .agg(
            pl.col("collective", "message_bytes", "bus_gbps", "usual_gbps").first(),
            pl.col("count").sum(),
        )
        .select(pl.lit("host").alias("kind"), pl.col("host").alias("what"), pl.exclude("host"))
    )
    explained = members.filter(pl.col("host").is_in(hosts["what"].implode()))
    rest = equal.filter(pl.col("part") < SLOW).join(explained, on="collective_id", how="anti")
    links = rest.select(
        pl.when(PAIR).then(pl.lit("link")).otherwise(pl.lit("group")).alias("kind"),
        pl.col("link").alias("what"),
        *hosts.columns[2:],
    )
    return pl.concat([hosts, links.sort("usual_gbps", "what")])


def link_text(kind: str, what: str) -> str:
    """How a slow host, group or link is called."""
    return f"the network of {what}" if kind == "host" else f"{kind} {what}"
