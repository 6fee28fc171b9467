"""The frames of the analyses as rows of the document; sums become means per step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from foretrace.analyze.jobs.critical import CriticalPath
from foretrace.analyze.jobs.exposed_waits import exposed_delays
from foretrace.analyze.jobs.stragglers import delays
from foretrace.analyze.jobs.what_if import WhatIf
from foretrace.schema.documents.job import (
    JobBubble,
    JobCell,
    JobClock,
    JobHost,
    JobNetwork,
    JobOutlier,
    JobOverlap,
    JobPath,
    JobRank,
    JobSegment,
    JobWhatIf,
)

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

MEANS = (
    "wall_ns", "compute_ns", "exposed_ns", "both_ns", "copy_ns", "idle_ns", "data_ns", "host_ns",
)  # fmt: skip
_MET = ("wait_ns", "transfer_ns", "exposed_wait_ns")
_CLOCK = ("offset_ns", "drift_ppm", "error_ns", "fitted", "collectives", "at_ns")


def whole(value: Any) -> int | None:
    """A time in whole nanoseconds."""
    return None if value is None else round(value)


def rank_rows(
    job: Job, times: pl.DataFrame, waited: pl.DataFrame, clocks: pl.DataFrame, late: pl.DataFrame
) -> list[JobRank]:
    """One row per rank, in order."""
    means = times.group_by("rank").agg(pl.col(MEANS).mean(), pl.len().alias("steps"))
    met = waited.group_by("rank").agg(*_sums(*_MET), pl.len().alias("collectives"))
    found = [_by_rank(frame) for frame in (means, met, late, clocks)]
    exposed = exposed_delays(waited, times)
    rows = []
    for each in job.members:
        mean, own, blame, clock = (frame.get(each.rank or 0, {}) for frame in found)
        steps = mean.get("steps", 0)
        rows.append(
            JobRank(
                rank=each.rank or 0,
                path=each.path,
                host=each.host,
                device=each.devices[0] if each.devices else "",
                steps=steps,
                **{name: whole(mean.get(name)) for name in MEANS},
                **{name: _per(own.get(name), steps) for name in _MET},
                made_others_wait_ns=_per(blame.get("made_others_wait_ns"), steps),
                delays_ns=_per(blame.get("delays_ns"), steps),
                exposed_delays_ns=_per(exposed.get(each.rank or 0, 0), steps),
                times_last=blame.get("times_last", 0),
                collectives=own.get("collectives", 0),
                cause=blame.get("cause") or "",
                causes={name: part for name, part in (blame.get("causes") or {}).items() if part},
                slow=blame.get("slow") or "",
                kernel_ratio=blame.get("gpu_factor"),
                clock=_clock(clock),
            )
        )
    return rows


def _sums(*names: str) -> list[pl.Expr]:
    """Sums that are null where no value is known, as waits are where clocks are not fitted."""
    known = ((name, pl.col(name)) for name in names)
    return [pl.when(each.count() > 0).then(each.sum()).alias(name) for name, each in known]


def _by_rank(frame: pl.DataFrame) -> dict[int, dict[str, Any]]:
    return {row["rank"]: row for row in frame.iter_rows(named=True)}


def _per(value: float | None, count: float) -> int | None:
    return None if value is None or not count else round(value / count)


def _clock(row: dict[str, Any]) -> JobClock:
    known: list[Any] = [row.get(name) for name in _CLOCK]
    return JobClock(*known) if row.get("fitted") else JobClock(None, None, None, False, 0)


def host_rows(
    job: Job, hosts: pl.DataFrame, waited: pl.DataFrame, times: pl.DataFrame
) -> list[JobHost]:
    """One row per host that files name."""
    lowest: dict[str, int] = {}
    for member in job.members:
        lowest.setdefault(member.host, member.rank or 0)
    homes = {each.rank or 0: lowest[each.host] for each in job.members}
    exposed, steps = exposed_delays(waited, times, homes), times["step"].n_unique()
    own = [exposed.get(lowest[host], 0) for host in hosts["host"]]
    each = pl.col("made_others_wait_ns", "delays_ns", "exposed_delays_ns") / max(steps, 1)
    found = hosts.with_columns(pl.Series("exposed_delays_ns", own, pl.Int64))
    rows = found.with_columns(each.round().cast(pl.Int64)).select(JobHost.__struct_fields__)
    return [JobHost(*row) for row in rows.iter_rows()]


def cells(times: pl.DataFrame, waited: pl.DataFrame) -> list[JobCell]:
    """One row per rank and step."""
    key = ("rank", "step")
    waits = waited.group_by(key).agg(pl.col("wait_ns").sum())
    joined = times.join(waits, on=key, how="left").join(delays(waited), on=key, how="left")
    met = pl.col("wait_ns").is_not_null()
    late = pl.when(met).then(pl.col("delays_ns").fill_null(0))
    rows = joined.with_columns(late.alias("delays_ns")).sort(key)
    return [JobCell(*row) for row in rows.select(JobCell.__struct_fields__).iter_rows()]


def overlap_rows(overlap: pl.DataFrame, steps: int) -> list[JobOverlap]:
    """Means per step of the ranks of each kind of group."""
    found = []
    for row in overlap.iter_rows(named=True):
        each = max(row["ranks"] * steps, 1)
        times = (_per(row[name], each) for name in ("total_ns", "exposed_ns", "wait_ns"))
        total, exposed, wait = times
        found.append(
            JobOverlap(
                row["group"],
                row["collective"],
                row["count"] / each,
                total or 0,
                exposed or 0,
                wait,
                row["ranks"],
            )
        )
    return found


def bubble_rows(bubbles: pl.DataFrame) -> list[JobBubble]:
    """Means per rank and step of each stage."""
    stages = bubbles.group_by("stage").agg(
        pl.col("rank").unique().sort(), pl.col("bubble_ns", "wall_ns").mean()
    )
    return [
        JobBubble(stage, ranks, round(bubble), bubble / wall if wall else 0.0)
        for stage, ranks, bubble, wall in stages.sort("stage").iter_rows()
    ]


def path_row(path: CriticalPath, changes: Sequence[WhatIf], error_ns: int | None) -> JobPath:
    """The path with times from its start."""
    names = ("rank", "kind", "name", "start_ns", "end_ns")
    start = pl.col("start_ns", "end_ns") - path.start_ns
    rows = path.segments.with_columns(start).select(names).iter_rows()
    return JobPath(
        step=path.step,
        length_ns=path.length_ns,
        ranks=path.segments["rank"].unique().sort().to_list(),
        kinds=dict(path.by("kind").iter_rows()),
        segments=[JobSegment(*row) for row in rows],
        what_ifs=[_what_if(each) for each in changes],
        error_ns=error_ns,
        compared=path.compared,
    )


def _what_if(change: WhatIf) -> JobWhatIf:
    if change.rank is not None:
        return JobWhatIf("rank", f"rank {change.rank}", change.rank, change.saves_ns)
    if change.host:
        return JobWhatIf("host", f"network of {change.host}", None, change.saves_ns)
    group = f", group {change.group}" if change.group else ""
    return JobWhatIf("collective", f"{change.collective}{group}", None, change.saves_ns)


def network_rows(bandwidths: pl.DataFrame) -> list[JobNetwork]:
    """The frame as rows."""
    return [JobNetwork(*row) for row in _chosen(bandwidths, JobNetwork.__struct_fields__)]


def outlier_rows(outliers: pl.DataFrame) -> list[JobOutlier]:
    """The frame as rows."""
    return [JobOutlier(*row) for row in _chosen(outliers, JobOutlier.__struct_fields__)]


def _chosen(frame: pl.DataFrame, names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    return frame.select(names).iter_rows()
