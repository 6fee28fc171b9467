"""Everything about a job as one document: each analysis runs once, sums become means per step.

A step that a recording cut counts only where no other was recorded.
"""

from __future__ import annotations

from typing import Any, TypeVar

import polars as pl
from msgspec import Struct

from foretrace.jobs import documents
from foretrace.jobs.critical_path import graph, walked, what_ifs
from foretrace.jobs.exposure import TIMES, bubbles, exposure, overlap, perfect, typical
from foretrace.jobs.matched_collectives import MatchedCollectives
from foretrace.jobs.network import bandwidths, outliers, transfers
from foretrace.jobs.rank_consistency import CLOCK_STEP_NS, rank_consistency, world_size
from foretrace.jobs.verdict import verdict
from foretrace.jobs.waits import (
    NOTABLE,
    OWN_CAUSES,
    delays,
    exposed_delays,
    hosts,
    stragglers,
    timed_collectives,
)
from foretrace.jobs.whole_job import WITHOUT_STEPS, Job

SUSPECTS = 3  # late ranks that are replayed one by one
_WAITED = ("wait_ns", "transfer_ns", "exposed_wait_ns")
_CLOCK = ("offset_ns", "drift_ppm", "error_ns", "fitted", "collectives", "at_ns")
_Row = TypeVar("_Row", bound=Struct)


def summarize(job: Job) -> documents.JobDocument:
    """Run every analysis once, and say what they show."""
    matched, clocks, waited = timed_collectives(job)
    same = rank_consistency(job, matched, clocks)
    odd = [rank for each in same if each.code == "clock_set" for rank in each.ranks]
    far = (pl.col("wall_ns") - pl.col("wall_ns").median().over("step")).abs() >= CLOCK_STEP_NS
    times = exposure(job).with_columns(pl.col("whole") & ~(pl.col("rank").is_in(odd) & far))
    counted = times.filter("whole") if times["whole"].any() else times
    steps, sent, shared = times["step"].n_unique(), transfers(job, matched), matched.shared
    late, slow = stragglers(waited, job), outliers(job, matched, sent)
    unnamed = matched.collectives.filter(pl.col("group") == "").select("collective_id")
    entry, ranks = _entry(job, counted), _rank_rows(job, counted, waited, clocks, late)
    homes = _host_rows(job, hosts(waited, job, late), waited, times)
    found = overlap(job, waited)
    rows = []
    for row in found.iter_rows(named=True):
        each = max(row["ranks"] * steps, 1)
        total, exposed, wait = (
            _per(row[name], each) for name in ("total_ns", "exposed_ns", "wait_ns")
        )
        what = (row["group"], row["collective"], row["count"] / each)
        rows.append(documents.JobOverlap(*what, total or 0, exposed or 0, wait, row["ranks"]))
    stages = (
        bubbles(job, matched, waited)
        .group_by("stage")
        .agg(pl.col("rank").unique().sort(), pl.col("bubble_ns", "wall_ns").mean())
    )
    document = documents.JobDocument(
        schema=documents.SCHEMA,
        job=entry,
        ranks=ranks,
        hosts=homes,
        cells=_cells(times, waited),
        collectives=matched.arrivals.height,
        matched=shared.height,
        by_order=shared.filter(pl.col("collective") != "send", how="order").height,
        undecided=_undecided(waited),
        perfect_overlap_ns=_whole(perfect(counted).median()),
        overlap=rows,
        bubbles=[
            documents.JobBubble(stage, ranks, round(bubble), bubble / wall if wall else 0.0)
            for stage, ranks, bubble, wall in stages.sort("stage").iter_rows()
        ],
        path=_path(job, matched, clocks, typical(times), _suspects(entry, ranks, homes), slow),
        network=_rows(documents.JobNetwork, bandwidths(sent)),
        outliers=_rows(documents.JobOutlier, slow),
        same=same,
        notes=list(job.notes),
        left_out=list(job.left_out),
        unnamed=matched.arrivals.join(unnamed, on="collective_id", how="semi").height,
    )
    document.verdict = verdict(document)
    return document


def _rows(kind: type[_Row], frame: pl.DataFrame) -> list[_Row]:
    """The rows of a frame whose columns have the names of the fields."""
    return [kind(*row) for row in frame.select(kind.__struct_fields__).iter_rows()]


def _whole(value: Any) -> int | None:
    """A time in whole nanoseconds."""
    return None if value is None else round(value)


def _per(value: float | None, count: float) -> int | None:
    return None if value is None or not count else round(value / count)


def _entry(job: Job, times: pl.DataFrame) -> documents.JobEntry:
    longest = times.group_by("step").agg(pl.col("wall_ns").max())["wall_ns"]
    world = world_size(job.members)
    return documents.JobEntry(
        path=job.path,
        ranks=len(job.members),
        world_size=world,
        hosts=len({each.host for each in job.members if each.host}),
        devices=sorted({device for each in job.members for device in each.devices}),
        steps=[step for step in times["step"].unique().sort() if step != WITHOUT_STEPS],
        step_ns=_whole(longest.mean()),
        median_step_ns=_whole(longest.median()),
        file_bytes=sum(each.file_bytes for each in job.facts),
        events=sum(each.events for each in job.facts),
        kernels=job.table("kernels").select(pl.col("count").sum()).collect().item() or 0,
        of_world=sum(0 <= (each.rank or 0) < (world or 0) for each in job.members),
    )


def _undecided(waited: pl.DataFrame) -> int:
    """Collectives in which no rank is late beyond the clocks' error."""
    late = pl.col("late_ns") > pl.col("error_ns")
    return waited.group_by("collective_id").agg(late.any()).filter(~pl.col("late_ns")).height


def _rank_rows(
    job: Job, times: pl.DataFrame, waited: pl.DataFrame, clocks: pl.DataFrame, late: pl.DataFrame
) -> list[documents.JobRank]:
    """One row per rank, in order."""
    means = times.group_by("rank").agg(pl.col(TIMES).mean(), pl.len().alias("steps"))
    # a sum is null where no value is known, as waits are where clocks are not fitted
    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in _WAITED]
    met = pl.col("step").drop_nulls().n_unique().alias("steps")
    waits = waited.group_by("rank").agg(*sums, pl.len().alias("collectives"), met)
    frames = [frame.rows_by_key("rank", named=True, unique=True, include_key=True)
              for frame in (means, waits, late, clocks)]  # fmt: skip
    exposed = exposed_delays(waited, times)
    rows = []
    for each in job.members:
        mean, own, delay, clock = (frame.get(each.rank or 0, {}) for frame in frames)
        met = own.get("steps", 0)  # of a file that is cut, no step may be whole
        rows.append(
            documents.JobRank(
                rank=each.rank or 0,
                path=each.path,
                host=each.host,
                device=each.devices[0] if each.devices else "",
                steps=mean.get("steps", 0),
                **{name: _whole(mean.get(name)) for name in TIMES},
                **{name: _per(own.get(name), met) for name in _WAITED},
                made_others_wait_ns=_per(delay.get("made_others_wait_ns"), met),
                delays_ns=_per(delay.get("delays_ns"), met),
                exposed_delays_ns=_per(exposed.get(each.rank or 0, 0), met),
                times_last=delay.get("times_last", 0),
                collectives=own.get("collectives", 0),
                cause=delay.get("cause") or "",
                causes={name: part for name, part in (delay.get("causes") or {}).items() if part},
                slow=delay.get("slow") or "",
                kernel_ratio=delay.get("gpu_factor"),
                clock=_clock(clock),
            )
        )
    return rows


def _clock(row: dict[str, Any]) -> documents.JobClock:
    if not row.get("fitted"):
        return documents.JobClock(None, None, None, False, 0)
    return documents.JobClock(**{name: row[name] for name in _CLOCK})


def _host_rows(
    job: Job, found: pl.DataFrame, waited: pl.DataFrame, times: pl.DataFrame
) -> list[documents.JobHost]:
    """One row per host that files name."""
    lowest: dict[str, int] = {}
    for member in job.members:
        lowest.setdefault(member.host, member.rank or 0)
    homes = {each.rank or 0: lowest[each.host] for each in job.members}
    exposed, steps = exposed_delays(waited, times, homes), times["step"].n_unique()
    own = [exposed.get(lowest[host], 0) for host in found["host"]]
    each = pl.col("made_others_wait_ns", "delays_ns", "exposed_delays_ns") / max(steps, 1)
    found = found.with_columns(pl.Series("exposed_delays_ns", own, pl.Int64))
    return _rows(documents.JobHost, found.with_columns(each.round().cast(pl.Int64)))


def _cells(times: pl.DataFrame, waited: pl.DataFrame) -> list[documents.JobCell]:
    """One row per rank and step."""
    key = ("rank", "step")
    waits = waited.group_by(key).agg(pl.col("wait_ns").sum())
    joined = times.join(waits, on=key, how="left").join(delays(waited), on=key, how="left")
    late = pl.when(pl.col("wait_ns").is_not_null()).then(pl.col("delays_ns").fill_null(0))
    return _rows(documents.JobCell, joined.with_columns(late.alias("delays_ns")).sort(key))


def _suspects(
    entry: documents.JobEntry, ranks: list[documents.JobRank], homes: list[documents.JobHost]
) -> list[list[int]]:
    """The ranks that come late by their own fault, the worst alone and then with those behind it;
    all of them; and those of each slow host.
    """
    least = max(NOTABLE * (entry.step_ns or 0), 1)
    own = [row for row in ranks if row.cause in OWN_CAUSES]
    late = [row for row in own if (row.exposed_delays_ns or 0) >= least]
    worst = [row.rank for row in sorted(late, key=lambda row: -(row.exposed_delays_ns or 0))]
    alone, together = worst[:SUSPECTS], range(2, min(len(worst), SUSPECTS) + 1)
    slow = [[row.rank for row in ranks if row.host == host.host] for host in homes if host.slow]
    sets = [*([rank] for rank in alone), *(worst[:count] for count in together), worst, *slow]
    return [ranks for ranks in sets if ranks]


def _path(
    job: Job,
    matched: MatchedCollectives,
    clocks: pl.DataFrame,
    step: int | None,
    late: list[list[int]],
    slow: pl.DataFrame,
) -> documents.JobPath | None:
    """The critical path through a step, with times from its start."""
    steps = None if step is None else graph(job, matched, clocks, step)
    if steps is None:
        return None
    path = walked(steps)
    changes = what_ifs(job, steps, path, matched, late, slow)
    since = pl.col("start_ns", "end_ns") - path.start_ns
    return documents.JobPath(
        step=path.step,
        length_ns=path.length_ns,
        ranks=path.segments["rank"].unique().sort().to_list(),
        kinds=dict(path.by("kind").iter_rows()),
        segments=_rows(documents.JobSegment, path.segments.with_columns(since)),
        what_ifs=changes,
        error_ns=_whole(clocks["error_ns"].max()),
        compared=path.compared,
    )
