"""Whether the traces are one whole job: every rank once, of one run, with the same kernels.

Ranks compare with the ranks of their pipeline stage, because stages run different layers. A rank is
odd if most ranks of its stage share a signature and it has another. Kernels that differ are named,
with how often they run in a step here and there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from statistics import median_low
from typing import TYPE_CHECKING

import polars as pl

from foretrace.base.units import bytes_text, count_text, plural, span_text
from foretrace.jobs.documents import JobOddity
from foretrace.jobs.exposure import stages
from foretrace.jobs.whole_job import RankFacts
from foretrace.trace.collectives import BOTH_SIDES

if TYPE_CHECKING:
    from foretrace.jobs.matched_collectives import MatchedCollectives
    from foretrace.jobs.whole_job import Job

Run = tuple[int, int]  # the first rank and the last
_NAMED = 64  # ranks that an oddity lists
_SHOWN = 3  # kernels and numbers that a sentence has room for
CLOCK_STEP_NS = 128_000_000  # from here on `ntpd` sets a clock; what is less it slows or speeds up


def rank_consistency(
    job: Job, matched: MatchedCollectives, clocks: pl.DataFrame
) -> list[JobOddity]:
    """What is odd about the job as a whole; empty where the traces are one whole job."""
    return [
        *_missing(job),
        *_other_files(job),
        *_other_kernels(job, stages(matched)),
        *_other_sizes(matched),
        *_cut(job),
        *_partly_recorded(matched),
        *_damaged(job),
        *_clocks_apart(job, clocks),
        *_clocks_set(matched),
        *_clocks_set_between(job, clocks),
    ]


def _odd(code: str, severity: str, ranks: Iterable[int | None], text: str) -> JobOddity:
    found = sorted({rank for rank in ranks if rank is not None})
    return JobOddity(code, severity, len(found), text, found[:_NAMED])


def ranks_text(ranks: Collection[int | None]) -> str:
    """Some ranks in few words: runs of numbers, and how many more there are."""
    runs: list[Run] = []
    for rank in sorted({rank for rank in ranks if rank is not None}):
        follows = runs and rank == runs[-1][1] + 1
        runs[len(runs) - bool(follows) :] = [(runs[-1][0] if follows else rank, rank)]
    return runs_text(runs)


def runs_text(runs: Sequence[Run]) -> str:
    """Runs of ranks in words."""
    count, shown = (sum(last - first + 1 for first, last in part) for part in (runs, runs[:_SHOWN]))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:_SHOWN]]
    more = f" and {count_text(count - shown)} more" if count > shown else ""
    return f"{'rank' if count == 1 else 'ranks'} {', '.join(parts)}{more}"


def world_size(facts: Iterable[RankFacts]) -> int | None:
    """The world size that most ranks state; the larger of two that are stated as often."""
    stated = Counter(each.world_size for each in facts if each.world_size is not None)
    return max(stated, key=lambda size: (stated[size], size), default=None)


def _missing(job: Job) -> Iterator[JobOddity]:
    """Ranks below the world size without a file; a file may claim any world, so runs are listed."""
    world = world_size(job.members) or 0
    found = sorted({each.rank for each in job.members if each.rank is not None})
    if job.ranks is not None:
        lacking = [rank for rank in job.ranks.difference(found) if rank < world]
        if lacking:
            yield _odd("rank_missing", "data_loss", lacking, f"no file of {ranks_text(lacking)}")
        return
    edges = [-1, *(rank for rank in found if 0 <= rank < world), world]
    gaps = [(low + 1, high - 1) for low, high in pairwise(edges) if high - low > 1]
    count = sum(last - first + 1 for first, last in gaps)
    if count:
        beyond = [rank for rank in found if not 0 <= rank < world]
        stray = f"; {ranks_text(beyond)} not in that world" if beyond else ""
        known = f"{world - count:,} of {plural(world, 'rank')} found"
        text = f"{known}: no {runs_text(gaps)}{stray}"
        absent = islice(chain.from_iterable(range(low, high + 1) for low, high in gaps), _NAMED)
        yield JobOddity("rank_missing", "data_loss", count, text, list(absent))


def _other_files(job: Job) -> Iterator[JobOddity]:
    """Files of one rank or of another run, and those that state another world size or device."""
    run, world = {each.job for each in job.members}, world_size(job.members)
    claimed = Counter(each.rank for each in job.facts if each.job in run)
    twice = [rank for rank, count in claimed.items() if count > 1]
    if twice:
        text = f"several files have {ranks_text(twice)}: the first by path counts"
        yield _odd("rank_duplicate", "error", twice, text)
    strange = [each for each in job.facts if each.world_size not in (world, None)]
    if strange:
        sizes = ", ".join(str(size) for size in sorted({each.world_size or 0 for each in strange}))
        ranks = [each.rank for each in strange]
        usual = "the others state none" if world is None else f"others {world}"
        text = f"{ranks_text(ranks)}: world size {sizes}, {usual}"
        yield _odd("other_world_size", "error", ranks, text)
    others = [each for each in job.facts if each.job not in run and each not in strange]
    if others:
        runs = plural(len({each.job for each in others}), "other run")
        text = f"{plural(len(others), 'file')} of {runs}, not counted: {others[0].path}"
        yield JobOddity("other_run", "error", len(others), text, [])
    models = Counter(each.devices for each in job.members if each.devices)
    common = max(models, key=lambda name: (models[name], name), default=())
    odd = [each for each in job.members if each.devices and each.devices != common]
    if odd:
        ranks, other = [each.rank for each in odd], ", ".join(odd[0].devices)
        text = f"{ranks_text(ranks)}: {other}, most others {', '.join(common)}"
        yield _odd("other_device", "notice", ranks, text)


def _other_kernels(job: Job, stage: dict[int, int]) -> Iterator[JobOddity]:
    """One oddity for all ranks of a stage that share a signature and are not the most."""
    by_stage: dict[int | None, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in job.members:
        if each.rank is not None and each.kernel_signature:
            by_stage[stage.get(each.rank)][each.kernel_signature].append(each.rank)
    for ways in by_stage.values():
        most, *rest = sorted(ways.values(), key=lambda ranks: (-len(ranks), ranks))
        every = [rank for ranks in ways.values() for rank in ranks]
        if rest and 2 * len(most) <= len(every):
            text = f"{ranks_text(every)}: {len(ways)} different sets of kernels"
            yield _odd("kernels_vary", "notice", every, text)
            continue
        for odd in rest:
            differ = _kernels_that_differ(job, odd[0], most[0])
            text = f"{ranks_text(odd)}: other kernels than rank {most[0]}: {differ}"
            yield _odd("other_kernels", "notice", odd, text)


def _kernels_that_differ(job: Job, rank: int, usual: int) -> str:
    """The kernels that run more or less often per step, those with the most time first."""
    kind = ["name", "signature"]
    table = job.table("kernels").filter(pl.col("rank").is_in([rank, usual])).collect()
    own, other = (
        table.filter(rank=each).select(*kind, "short", "per_step", "total_ns")
        for each in (rank, usual)
    )
    differ = (
        own.join(other, on=kind, how="full", coalesce=True, suffix="_usual")
        .with_columns(
            pl.col("per_step", "per_step_usual", "total_ns", "total_ns_usual").fill_null(0)
        )
        .filter(pl.col("per_step") != pl.col("per_step_usual"))
        .with_columns(pl.coalesce("short", "short_usual").alias("short"))
        .sort(pl.max_horizontal("total_ns", "total_ns_usual"), "name", descending=[True, False])
    )
    shown = [
        f"{row['short']} {row['per_step']:.3g} per step instead of {row['per_step_usual']:.3g}"
        for row in differ.head(_SHOWN).iter_rows(named=True)
    ]
    more = f" and {differ.height - _SHOWN} more" if differ.height > _SHOWN else ""
    return f"{'; '.join(shown)}{more}" if shown else "the order or the number of steps"


def _other_sizes(matched: MatchedCollectives) -> Iterator[JobOddity]:
    """Ranks that state another size than most ranks of the same collective."""
    kind = ("group", "collective")
    known = matched.collectives.select("collective_id", *kind, pl.col("message_bytes").alias("of"))
    stated = matched.unequal.join(known, on="collective_id")
    for (group, collective), rows in stated.group_by(kind, maintain_order=True):
        odd = rows.filter(pl.col("message_bytes") != pl.col("of"))
        most = 2 * odd.height < rows.height
        ranks = (odd if most else rows)["rank"].unique().to_list()
        what = f"{plural(odd['collective_id'].n_unique(), str(collective))} of group {group}"
        size, usual = odd.select(pl.col("message_bytes", "of").first()).row(0)
        sizes = f"{bytes_text(size)} {'and not' if most else 'and'} {bytes_text(usual)}"
        yield _odd("other_size", "error", ranks, f"{ranks_text(ranks)}: {what} with {sizes}")


def _cut(job: Job) -> Iterator[JobOddity]:
    """Steps that the recording of a rank cut, and steps that a rank lacks."""
    steps = job.table("steps").select("rank", "step", "whole").collect()
    cut = steps.filter(~pl.col("whole"))["rank"].unique().to_list()
    if cut:
        yield _odd("step_cut", "notice", cut, f"{ranks_text(cut)}: a step is cut, and not counted")
    count = steps["rank"].n_unique()
    shared = steps.group_by("step").len("ranks").filter(pl.col("ranks") == count)["step"]
    extra = steps.filter(~pl.col("step").is_in(shared.implode()))["step"].unique().sort().to_list()
    if extra:
        some = steps.filter(pl.col("step").is_in(extra))["rank"].unique().to_list()
        shown = ", ".join(map(str, extra[:_SHOWN])) + (", …" if len(extra) > _SHOWN else "")
        text = f"{'step' if len(extra) == 1 else 'steps'} {shown}: only on {ranks_text(some)}"
        yield _odd("step_missing", "notice", some, text)


def _partly_recorded(matched: MatchedCollectives) -> Iterator[JobOddity]:
    for row in matched.incomplete().iter_rows(named=True):
        ranks = row["ranks"] or []
        lack = f": not on {ranks_text(ranks)}" if ranks else ""
        kind = plural(row["count"], row["collective"] or "collective")
        of_group = f" of group {row['group']}" if row["group"] else ""
        text = f"{kind}{of_group} recorded by some ranks only{lack}"
        yield JobOddity("partly_recorded", "notice", row["count"], text, ranks[:_NAMED])
    for row in matched.unmatched().iter_rows(named=True):
        kind = plural(row["count"], row["collective"] or "collective")
        reason = {
            "peer": "the traces do not name the other rank",
            "group": "several groups have this name, and the traces do not list their members",
            "order": "the traces have no sequence numbers, and the ranks differ in their count",
        }[row["unmatched"]]
        text = f"{kind} on {ranks_text(row['ranks'])} not matched: {reason}"
        yield JobOddity("not_matched", "notice", row["count"], text, row["ranks"][:_NAMED])


def _damaged(job: Job) -> Iterator[JobOddity]:
    ranks = [each.rank for each in job.members if each.lost_data]
    if ranks:
        yield _odd(
            "lost_data", "data_loss", ranks, f"{ranks_text(ranks)}: part of the file is lost"
        )


def _clocks_apart(job: Job, clocks: pl.DataFrame) -> Iterator[JobOddity]:
    """Ranks whose clock is so far from that of most that nobody set it, or somebody did wrong."""
    based = [each.rank for each in job.members if each.has_time_base]
    known = clocks.filter(pl.col("rank").is_in(based), "fitted")
    usual = pl.col("offset_ns").quantile(0.5, "lower")
    ahead = known.select("rank", (pl.col("offset_ns") - usual).cast(pl.Int64).alias("ahead"))
    for words, each in _steps(dict(ahead.iter_rows()), ("ahead of", "behind")):
        text = f"{words} the others', corrected by the collectives"
        yield _odd("clock_apart", "notice", each, text)


def _clocks_set(matched: MatchedCollectives) -> Iterator[JobOddity]:
    """Ranks whose clock was set during the recording: from some collective on, all end at another
    time beside the median rank, or beside the lowest of two.
    """
    sure = matched.shared.filter(pl.col("collective").is_in(BOTH_SIDES), how="seq")
    rows = matched.arrivals.join(sure.select("collective_id", "group", "seq"), on="collective_id")
    several, end = pl.len() > 2, pl.col("end_ns")
    beside = (
        pl.when(several).then(end.quantile(0.5, "lower")).otherwise(end.sort_by("rank").first())
    )
    off = (end - beside.over("collective_id").cast(pl.Int64)).alias("off")
    rows = rows.with_columns(off).sort("group", "rank", "seq")
    far = pl.col("off").diff().over("group", "rank").abs() >= CLOCK_STEP_NS
    jumps: dict[int, int] = {}
    for (_, rank), own in rows.filter(far.any().over("group", "rank")).group_by("group", "rank"):
        offs = own["off"].to_list()
        at = max(range(1, len(offs)), key=lambda at: abs(offs[at] - offs[at - 1]))
        size = median_low(offs[at:]) - median_low(offs[:at])
        jumps[int(rank)] = max(jumps.get(int(rank), 0), size, key=abs)
    for words, each in _steps(jumps, ("forward", "back")):
        yield _odd("clock_set", "notice", each, f"{words} during the recording")


def _steps(found: dict[int, int], words: tuple[str, str]) -> Iterator[tuple[str, list[int]]]:
    """`rank 2: clock 5.00 s ahead of`: of times by rank those that no clock drifts by."""
    for sign, word in zip((1, -1), words, strict=True):
        ranks = [rank for rank, ns in found.items() if sign * ns >= CLOCK_STEP_NS]
        if ranks:
            most = span_text(max(sign * found[rank] for rank in ranks) / 1e9)
            clock = f"clock {most}" if len(ranks) == 1 else f"clocks up to {most}"
            yield f"{ranks_text(ranks)}: {clock} {word}", ranks


def _clocks_set_between(job: Job, clocks: pl.DataFrame) -> Iterator[JobOddity]:
    """Ranks of which a later recording begins and ends at another distance than those of the
    others, with which collectives keep them in step. Of two ranks nobody knows whose clock it was.
    """
    run, tied = {each.job for each in job.members}, set(clocks.filter("fitted")["rank"])
    files: dict[tuple[int, ...], dict[int, RankFacts]] = defaultdict(dict)
    for each in job.facts:
        known = each.job in run and each.has_time_base and each.steps
        if known and each.rank is not None and each.rank in tied:
            files[each.steps].setdefault(each.rank, each)
    for first, second in pairwise(sorted(files)):
        both = sorted(files[first].keys() & files[second].keys())
        edges = [(files[first][rank], files[second][rank]) for rank in both]
        later = [(new.start_ns - old.start_ns, new.end_ns - old.end_ns) for old, new in edges]
        usual = [median_low(side) for side in zip(*later, strict=True)]
        moved = [[own - most for own, most in zip(each, usual, strict=True)] for each in later]
        jumps = {
            rank: min(each, key=abs)
            for rank, each in zip(both, moved, strict=True)
            if (each[0] < 0) == (each[1] < 0) and len(both) > 2
        }
        between = f"between the files of steps {first[0]} and {second[0]}"
        for words, ranks in _steps(jumps, ("forward", "back")):
            yield _odd("clock_set", "notice", ranks, f"{words} {between}")
