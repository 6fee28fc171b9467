"""What a step would take if one thing changed: the graph of the step, replayed forward.

How it is computed: all work starts as soon as what it waited for has ended, after the same pause,
and not before the work before it on its stream has ended; a transfer starts when the last rank has
come. With nothing changed, the replay gives the recorded times. A free collective transfers in no
time, and its ranks still wait for each other. A rank at the median has its compute and its idle
time shortened to the median of the ranks that do the same part of the step.

When it is wrong: it is an estimate. Work that would have waited for something else, had it come
earlier, starts too early here. Work that shares the GPU with a collective keeps its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from foretrace.analyze.jobs.bubbles import stages
from foretrace.analyze.jobs.critical import COMMS, CriticalPath
from foretrace.analyze.jobs.dependencies import TRANSFER, StepGraph
from foretrace.analyze.jobs.replay import Replay, StepChange
from foretrace.analyze.jobs.roles import roles

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job
    from foretrace.analyze.jobs.matching import MatchedCollectives

_SPENT = (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
MOST = 3  # of each kind: those that have the most time on the path


class WhatIf(Struct, frozen=True):
    """An estimate of the step with a change, and what it saves.

    The change is a rank at the median, or that all collectives of one kind are free in the groups
    of one role, or that all collectives of a host have the bandwidth of its equals.
    """

    step_ns: int = 0
    saves_ns: int = 0
    rank: int | None = None
    group: str = ""
    collective: str = ""
    host: str = ""


def without(replay: Replay, changes: Sequence[StepChange]) -> list[int]:
    """The length of the step with each of these changes."""
    if not changes:
        return []
    return [round(end) for end in replay.ends(changes).tolist()]


def at_median(replay: Replay, rank: int, peers: Collection[int]) -> StepChange:
    """The rank with the median compute, copies and idle time of its peers, where its own are
    longer.
    """
    return StepChange(rank=rank, curves=replay.spending.at_median(rank, peers))


def what_ifs(
    job: Job,
    steps: StepGraph,
    path: CriticalPath,
    matched: MatchedCollectives,
    late: Collection[int] = (),
    slow: pl.DataFrame | None = None,
) -> list[WhatIf]:
    """What the changes with the most time on the path save, and those of suspects: ranks that come
    late, and the hosts in what `outliers` gives. The largest first; a suspect may save nothing.
    """
    replay = Replay(steps)
    rows = [
        *_free(job, path, matched),
        *_slow(replay, path, stages(matched), late),
        *_hosts(job, matched, slow),
    ]
    lengths = without(replay, [change for _, change in rows])
    found = [
        replace(each, step_ns=length, saves_ns=max(path.length_ns - length, 0))
        for (each, _), length in zip(rows, lengths, strict=True)
        if length < path.length_ns or each.rank in late or each.host
    ]
    return sorted(found, key=lambda each: -each.saves_ns)


def _free(job: Job, path: CriticalPath, matched: MatchedCollectives) -> Iterator[tuple[WhatIf, StepChange]]:
    """The kinds of collective and group with the most time on the path, each free."""
    role = roles(job).select(pl.col("label").alias("group"), "role").unique("group", keep="first")
    known = matched.collectives.join(role, on="group", how="left").select(
        pl.col("collective_id").cast(pl.Int64), pl.coalesce("role", "group").alias("group"), "collective"
    )
    talks = path.segments.filter(kind=TRANSFER).select("collective_id", _SPENT).join(known, on="collective_id")
    kinds = talks.group_by("group", "collective", maintain_order=True).agg(pl.col("ns").sum())
    for group, collective, _ in kinds.top_k(MOST, by="ns").iter_rows():
        free = known.filter(group=group, collective=collective)["collective_id"]
        yield WhatIf(group=group, collective=collective), StepChange(frozenset(free.to_list()))


def _slow(
    replay: Replay, path: CriticalPath, stage: dict[int, int], late: Collection[int]
) -> Iterator[tuple[WhatIf, StepChange]]:
    """The ranks with the most time on the path and those that come late, at the median of their
    stage.
    """
    own = path.segments.filter(~pl.col("kind").is_in([TRANSFER, COMMS])).select("rank", _SPENT)
    longest = own.group_by("rank", maintain_order=True).agg(pl.col("ns").sum())
    ranks = replay.steps.rank[replay.steps.finishes].tolist()
    on_path = longest.top_k(MOST, by="ns")["rank"].to_list()
    for rank in dict.fromkeys([*on_path, *(rank for rank in late if rank in ranks)]):
        peers = [each for each in ranks if stage.get(each) == stage.get(rank)]
        yield WhatIf(rank=rank), at_median(replay, rank, peers)


def _hosts(
    job: Job, matched: MatchedCollectives, slow: pl.DataFrame | None
) -> Iterator[tuple[WhatIf, StepChange]]:
    """Slow hosts with the bandwidth that is usual."""
    for row in slow.filter(kind="host").iter_rows(named=True) if slow is not None else ():
        ranks = [each.rank for each in job.members if each.host == row["what"]]
        met = matched.arrivals.filter(pl.col("rank").is_in(ranks))["collective_id"].unique().to_list()
        left = row["bus_gbps"] / row["usual_gbps"]
        yield WhatIf(host=row["what"]), StepChange(frozenset(met), left)
