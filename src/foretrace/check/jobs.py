"""What predictions say of a job of many ranks, and of two results of `foretrace try`.

    max(exposed) < 10%                of every rank: the share of its step without compute under it
    in rank 3: compute.time < 12 ms   one rank; without it, the median over the ranks
    ranks.last == 3 and ranks.cause == compute
    bandwidth(all-reduce) > 100 GB/s
    b.step.time < 1.05 * a.step.time

A number is that of `foretrace job`: one copied from that page is a hit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from foretrace.base.units import percent_text, plural, time_text
from foretrace.check.judging import COUNT, SHARE, SIZES, WORD, Answer, Facts, Judge, Value
from foretrace.check.language import (
    BYTE_RATE,
    PLAIN,
    TIME,
    Quantity,
    Reads,
    Scope,
    Selector,
    Unknown,
    WrongText,
    nearest,
)
from foretrace.check.marking import Guesses, mark_all
from foretrace.check.verdict import Verdict, Verdicts
from foretrace.check.windows import NoSuchPlace
from foretrace.jobs.documents import JobDocument, JobRank

NO_WAITS = "no collective was matched between ranks whose clocks could be fitted"
LISTED = 6  # ranks under a miss; the table of `foretrace job` has the rest
# A part of a rank's step: its share of the step, and with `.time` its mean per step.
_PARTS = {
    "compute": "compute_ns",
    "exposed": "exposed_ns",
    "overlap": "both_ns",
    "copies": "copy_ns",
    "idle": "idle_ns",
    "data": "data_ns",
    "host": "host_ns",
    "wait": "wait_ns",
    "transfer": "transfer_ns",
}
_SIZES: dict[str, tuple[Callable[[JobDocument], int | None], str]] = {
    "ranks": (lambda job: job.job.ranks, ""),
    "ranks.world": (lambda job: job.job.world_size, "no header has the world size"),
    "ranks.missing": (
        lambda job: None if job.job.world_size is None else job.job.missing,
        "no header has the world size",
    ),
    "hosts": (lambda job: job.job.hosts or None, "no file names its host"),
    "steps": (lambda job: len(job.job.steps), ""),
    "unreadable": (lambda job: len(job.left_out), ""),
}
_NONE, _ONE = Reads(), Reads(1, 1)
JOB: dict[str, tuple[str, Reads]] = {
    "step.time": (TIME, _NONE),
    **dict.fromkeys(_PARTS, (SHARE, _NONE)),
    **{f"{name}.time": (TIME, _NONE) for name in _PARTS},
    **dict.fromkeys(_SIZES, (COUNT, _NONE)),
    **{f"ranks.{name}": (COUNT, _NONE) for name in ("last", "slowest")},
    "ranks.cause": (WORD, _NONE),
    "ranks.spread": (SHARE, _NONE),
    "bandwidth": (BYTE_RATE, Reads(0, 1)),
    "bandwidth.algorithm": (BYTE_RATE, Reads(0, 1)),
    **{name: (TIME, Reads(1, 1, expression=True)) for name in ("max", "min", "median")},
}
TRIES: dict[str, tuple[str, Reads]] = {
    "untouched": (TIME, _NONE),
    "best": (TIME, _NONE),
    "lost": (COUNT, _NONE),
}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where a prediction about a job looks: one rank, or all of them."""

    job: JobDocument
    rank: JobRank | None = None


def _value(value: float | None, unit: str, absent: str, **more: Any) -> Value:
    if value is None:
        raise Unknown(absent)
    return Value(value, value, unit if unit in SIZES else PLAIN, unit, **more)


def _of_rank(name: str, rank: JobRank) -> float | None:
    part, _, time = name.partition(".")
    if name == "step.time":
        return rank.wall_ns
    ns: int | None = getattr(rank, _PARTS[part])
    whole: int | None = rank.wall_ns
    if part == "overlap":  # the share of the communication that compute hides
        both, exposed = rank.both_ns, rank.exposed_ns
        whole = None if both is None or exposed is None else both + exposed
    return ns if time else None if ns is None or not whole else ns / whole


def own_time(rank: JobRank) -> int | None:
    """The time of a step in which a rank does not wait for others."""
    if rank.wall_ns is None or rank.exposed_ns is None or rank.exposed_wait_ns is None:
        return None
    return rank.wall_ns - min(rank.exposed_wait_ns, rank.exposed_ns)


class JobJudge(Judge[Ranks]):
    """Works predictions out on a job, and on the one that they call `a`."""

    known = JOB

    def __init__(self, job: JobDocument, other: JobDocument | None = None) -> None:
        self.job, self.other = job, other

    def places(self, scope: Scope) -> list[Ranks]:
        """One rank, or the job."""
        if scope.kind == "rank":
            return [self._rank(int(scope.name))]
        if scope.kind:
            raise Unknown("a job has ranks: say `in rank 3:`")
        return [Ranks(self.job)]

    def _rank(self, number: int) -> Ranks:
        for rank in self.job.ranks:
            if rank.rank == number:
                return Ranks(self.job, rank)
        there = [str(rank.rank) for rank in self.job.ranks]
        more = f" and {len(there) - LISTED:,} more" if there[LISTED:] else ""
        raise NoSuchPlace(f"no rank {number} in this job; it has {', '.join(there[:LISTED])}{more}")

    def label(self, place: Ranks) -> str:
        """`rank 3`."""
        return "the job" if place.rank is None else f"rank {place.rank.rank}"

    def is_once(self, node: Quantity) -> bool:
        """A job is one place."""
        return True

    def advise(self, words: str) -> str:
        """Quantities of a job that may be meant."""
        near = nearest(words, list(self.known))
        return f"did you mean {', '.join(f'`{name}`' for name in near)}?" if near else ""

    def proof(self, place: Ranks, answers: Sequence[Answer]) -> tuple[list[str], tuple[int, ...]]:
        """The ranks that are furthest from the others."""
        return [line for each in answers for line in each.lines], ()

    def quantity(self, node: Quantity, place: Ranks) -> Answer:
        """What a quantity is of one rank, or of the job."""
        if node.side == "a":
            if self.other is None:
                raise Unknown("`a` is another job: compare two of them")
            place = Ranks(self.other)
        job, name = place.job, node.name
        if name in ("max", "min", "median"):
            return self._over_ranks(node, job)
        if name in _SIZES:
            return _value(_SIZES[name][0](job), COUNT, _SIZES[name][1])
        if name.startswith("bandwidth"):
            return _bandwidth(job, node)
        if name == "ranks.spread" or name == "ranks.slowest":
            return _slowest(job, name)
        if name in ("ranks.last", "ranks.cause"):
            return _last(job, name)
        if place.rank is not None:
            value, absent = (
                _of_rank(name, place.rank),
                f"the trace of rank {place.rank.rank} lacks it",
            )
            return _value(value, JOB[name][0], absent)
        known = [value for rank in job.ranks if (value := _of_rank(name, rank)) is not None]
        return _value(median(known) if known else None, JOB[name][0], "the traces do not have it")

    def _over_ranks(self, node: Quantity, job: JobDocument) -> Answer:
        inner = node.of[0]
        if not isinstance(inner, Quantity) or inner.name.partition(".")[0] not in (*_PARTS, "step"):
            hint = f"as in `{node.name}(exposed)`"
            raise WrongText(self.text, inner.at, f"`{node.name}` is over the ranks", hint)
        values = {rank.rank: _of_rank(inner.name, rank) for rank in job.ranks}
        known = {rank: value for rank, value in values.items() if value is not None}
        if not known:
            raise Unknown("the traces do not have it")
        unit = JOB[inner.name][0]
        usual = median(known.values())
        chosen = {"max": max, "min": min}.get(node.name, lambda each: median(each))(known.values())
        shown = percent_text if unit == SHARE else time_text
        far = sorted(known, key=lambda rank: -abs(known[rank] - usual))[:LISTED]
        lines = tuple(f"{shown(known[rank]):>8}  rank {rank}" for rank in far)
        missing = [rank for rank, value in values.items() if value is None]
        gap = _gap(job) or (f"{plural(len(missing), 'rank')} without it" if missing else "")
        rank = next((rank for rank, value in known.items() if value == chosen), None)
        note = "" if rank is None else f" (rank {rank})"
        ends = (float(chosen), float(chosen))
        if gap:  # ranks that were not read may have more, or less
            ends = (0.0, ends[1]) if node.name == "min" else (ends[0], float("inf"))
        measures = unit if unit in SIZES else PLAIN
        return Value(*ends, measures, unit, why=gap, note=note, lines=lines)


def _gap(job: JobDocument) -> str:
    """Why ranks may differ from those that were read; empty when all were."""
    head = job.job
    if head.world_size is not None and head.missing:
        return f"{head.world_size - head.missing:,} of {head.world_size:,} ranks were read"
    return f"{plural(len(job.left_out), 'file')} could not be read" if job.left_out else ""


def _slowest(job: JobDocument, name: str) -> Answer:
    times = [(time, rank) for rank in job.ranks if (time := own_time(rank)) is not None]
    usual = median(time for time, _ in times) if times else 0
    if not usual:
        raise Unknown(NO_WAITS)
    time, rank = max(times, key=lambda pair: pair[0])
    note = f" (rank {rank.rank}: {time_text(time)} without waits)"
    if name == "ranks.slowest":
        return Value(rank.rank, rank.rank, PLAIN, COUNT, note=note)
    return _value(time / usual - 1, SHARE, "", note=note)


def _last(job: JobDocument, name: str) -> Answer:
    ranks = [rank for rank in job.ranks if rank.wait_ns is not None]
    if not ranks:
        raise Unknown(NO_WAITS)
    last = max(ranks, key=lambda rank: rank.times_last)
    if not last.times_last:
        raise Unknown("no rank came last beyond the clocks' error")
    if name == "ranks.cause":
        return Facts((last.cause.replace("_", " ") or None,))
    often = f"last in {last.times_last:,} of {last.collectives:,} collectives"
    return Value(last.rank, last.rank, PLAIN, COUNT, note=f" ({often})")


def _bandwidth(job: JobDocument, node: Quantity) -> Answer:
    """Of the largest messages of a collective, or of all, without the waits for late ranks."""
    of = [each.text.strip('"') for each in node.of if isinstance(each, Selector)]
    rows = [row for row in job.network if not of or row.collective == of[0].replace("_", "-")]
    if not rows:
        there = ", ".join(dict.fromkeys(row.collective for row in job.network)) or "none"
        raise Unknown(f"no such collective of this job has a transfer time; there are: {there}")
    row = max(rows, key=lambda row: row.message_bytes * row.count)
    rate = row.algorithm_gbps if node.name.endswith("algorithm") else row.bus_gbps
    return _value(rate * 1e9, BYTE_RATE, "", note=f" ({row.collective})")


class TriesJudge(Judge[Mapping[str, float]]):
    """Works conditions out on two results of `try`: `b.best <= 1.05 * a.best`, `lost == 0`."""

    known = TRIES

    def __init__(self, b: Mapping[str, float | None], a: Mapping[str, float | None]) -> None:
        self.b, self.a = b, a

    def places(self, scope: Scope) -> list[Any]:
        """The comparison is one place."""
        return [self.b]

    def label(self, place: object) -> str:
        """What it is about."""
        return "b"

    def is_once(self, node: Quantity) -> bool:
        """It is one place."""
        return True

    def advise(self, words: str) -> str:
        """What there is."""
        return f"there are {', '.join(f'`{name}`' for name in self.known)}"

    def proof(self, place: object, answers: Sequence[Answer]) -> tuple[list[str], tuple[int, ...]]:
        """The document has the rest."""
        return [], ()

    def quantity(self, node: Quantity, place: object) -> Answer:
        """A number of one side."""
        value = (self.a if node.side == "a" else self.b).get(node.name)
        return _value(value, self.known[node.name][0], f"{node.name} is not recorded")


def check_job(
    job: JobDocument, predictions: Guesses, against: JobDocument | None = None
) -> Verdicts:
    """Mark each prediction on the document of a job."""
    return mark_all(predictions, JobJudge(job, against), JOB, _gap(job))


__all__ = ["JOB", "TRIES", "JobJudge", "TriesJudge", "Verdict", "check_job"]
