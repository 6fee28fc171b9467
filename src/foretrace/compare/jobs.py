"""`foretrace compare JOB_A JOB_B --json`: what changed between two jobs of many ranks.

Step time, exposed time, waits, stragglers, the network. The steps are the repeats: each gives the
time of its longest rank and the means over the ranks, and their spread is the noise (see
`measure`). Idle time of the GPU is the host's, which the profiler slows: a job is faster only where
the time in which its GPUs work changed as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import fmean

from msgspec import Struct

from foretrace.base.tables import TEXT, WORDS, Column, Line, Table, fitted
from foretrace.base.terminal import WIDTH, shorten
from foretrace.base.units import (
    bytes_text,
    change_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)
from foretrace.compare.documents import ChangeEntry, CompareVerdict
from foretrace.compare.measure import measured, sample
from foretrace.jobs.documents import JobCell, JobDocument, JobEntry, JobNetwork
from foretrace.jobs.verdict import read_text

SCHEMA = 1
TRACES = "traces"
TICK_NS = 1_000  # the resolution of older traces; a smaller spread is not measured
CLOSE = 0.05  # bandwidths of two runs on one network differ by this much
_WORDS = {
    "step": "step time",
    "compute": "compute",
    "exposed": "exposed communication",
    "wait": "waits for late ranks",
    "idle": "GPU idle",
}
LARGEST = 1_000  # a ratio above is to next to nothing
NAME = 48  # of a folder's name


class JobChange(Struct, frozen=True):
    """A time per step in A and in B, B over A, and the noise of the steps as a fraction.

    `what` is step (the longest rank), compute, exposed, wait or idle (means over the ranks).
    `beyond` says whether the change is larger than the noise; null where that is not known.
    """

    what: str
    a: float | None
    b: float | None
    ratio: float | None
    noise: float | None
    beyond: bool | None


class LastRank(Struct, frozen=True):
    """The rank that the others wait for most: how long each step (counted once, from the median
    arrival on), how often it came last, and why.
    """

    rank: int
    host: str
    delays_ns: int
    times_last: int
    collectives: int
    cause: str


class NetworkChange(Struct, frozen=True):
    """Bus bandwidth of equal collectives in 10^9 bytes per second: the medians of A and of B."""

    collective: str
    dtype: str
    message_bytes: int
    group_size: int | None
    a: float | None
    b: float | None
    ratio: float | None


class CompareJobsDocument(Struct, frozen=True):
    """B compared with A. `steps_a` and `steps_b` count the whole steps that the times come from.

    `last_a` and `last_b` are null where no rank makes the others wait. `changed` and `unchanged`
    say the same in sentences.
    """

    schema: int
    a: JobEntry
    b: JobEntry
    steps_a: int
    steps_b: int
    verdict: CompareVerdict
    times: list[JobChange]
    last_a: LastRank | None
    last_b: LastRank | None
    last: str
    network: list[NetworkChange]
    changed: list[str]
    unchanged: list[str]


DOCUMENTS = {"compare_jobs": CompareJobsDocument}


def compare_jobs(a: JobDocument, b: JobDocument) -> CompareJobsDocument:
    """Compare job B with job A, each as `foretrace job` answers about it."""
    steps_a, steps_b = _steps(a), _steps(b)
    changes = {
        what: measured(*(sample(list(map(of, side)), TICK_NS) for side in (steps_a, steps_b)))
        for what, of in _QUANTITIES.items()
    }
    # Collectives of equal kind, type, size and number of ranks; those that move most first.
    sides = [_rates(document) for document in (a, b)]
    both = [key for key in sides[0] if key in sides[1]]
    found = []
    for key in sorted(both, key=lambda key: -key[2]):
        old, new = (side[key] for side in sides)
        found.append(NetworkChange(*key, old, new, new / old if old else None))
    late, network = _last_sentence(a, b), found
    said = [_time_sentence(_WORDS[what], changes[what]) for what in _WORDS]
    said.append(late)
    for row in network[:4]:  # collectives in sentences; the table has the rest
        size = "" if row.group_size is None else f" over {plural(row.group_size, 'rank')}"
        rates = f"{row.a:.3g} to {row.b:.3g} GB/s on the bus ({ratio_text(row.ratio)})"
        text = f"{row.collective}, {bytes_text(row.message_bytes)}{size}: {rates}"
        said.append((text, row.ratio is None or abs(row.ratio - 1) > CLOSE))
    entries = [
        JobChange(what, each.a, each.b, each.ratio, each.noise, each.beyond)
        for what, each in changes.items()
        if what in _WORDS
    ]
    return CompareJobsDocument(
        SCHEMA,
        a.job,
        b.job,
        len(steps_a),
        len(steps_b),
        _verdict(a, b, changes["step"], changes["working"]),
        entries,
        _last(a),
        _last(b),
        late[0],
        network,
        [text for text, differs in said if text and differs],
        [text for text, differs in said if text and not differs],
    )


def _steps(document: JobDocument) -> list[list[JobCell]]:
    """The ranks of each step that no recording cut."""
    steps: dict[int, list[JobCell]] = {}
    for cell in document.cells:
        steps.setdefault(cell.step, []).append(cell)
    return [cells for _, cells in sorted(steps.items()) if all(cell.whole for cell in cells)]


def _mean(values: list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


_QUANTITIES: dict[str, Callable[[list[JobCell]], float | None]] = {
    "step": lambda cells: max(cell.wall_ns for cell in cells),
    "working": lambda cells: _mean([cell.wall_ns - cell.idle_ns for cell in cells]),
    "compute": lambda cells: _mean([cell.compute_ns for cell in cells]),
    "exposed": lambda cells: _mean([cell.exposed_ns for cell in cells]),
    "wait": lambda cells: _mean([cell.wait_ns for cell in cells]),
    "idle": lambda cells: _mean([cell.idle_ns for cell in cells]),
}


def _last(document: JobDocument) -> LastRank | None:
    worst = max(document.ranks, key=lambda row: row.delays_ns or 0)
    if not worst.delays_ns or not _knows_waits(document):
        return None
    often = (worst.times_last, worst.collectives)
    return LastRank(worst.rank, worst.host, worst.delays_ns, *often, worst.cause)


_Equal = tuple[str, str, int, int | None]


def _rates(document: JobDocument) -> dict[_Equal, float]:
    groups: dict[_Equal, list[JobNetwork]] = {}
    for row in document.network:
        if row.bus_gbps is not None:
            key = (row.collective, row.dtype, row.message_bytes, row.group_size)
            groups.setdefault(key, []).append(row)
    return {
        key: sum((row.bus_gbps or 0) * row.count for row in rows) / sum(row.count for row in rows)
        for key, rows in groups.items()
    }


def _verdict(
    a: JobDocument, b: JobDocument, step: ChangeEntry, working: ChangeEntry
) -> CompareVerdict:
    worlds = [document.job.world_size or document.job.ranks for document in (a, b)]
    if worlds[0] != worlds[1]:
        text = f"two jobs: {count_text(worlds[0])} ranks in A, {count_text(worlds[1])} in B"
        return CompareVerdict("different", text, TRACES)
    if step.saved is None:
        absent = " and ".join(name for name, side in (("A", step.a), ("B", step.b)) if side is None)
        return CompareVerdict("inconclusive", f"no whole step in {absent}", TRACES)
    without = [name for name, side in (("A", a), ("B", b)) if not side.job.steps]
    per = "in the recording" if len(without) == 2 else "per step"
    text = f"{change_text(step.a, step.b)} {per} ({ratio_text(step.ratio)})"
    if len(without) == 1:
        why = f"{without[0]} has no steps: its time is that of the whole recording"
        return CompareVerdict("inconclusive", f"{text}: {why}", TRACES)
    if step.noise is None:
        return CompareVerdict("inconclusive", f"{text}: measured once, noise unknown", TRACES)
    if not step.beyond:
        noise = percent_text(step.noise)
        return CompareVerdict("inconclusive", f"{text}: within the noise of {noise}", TRACES)
    saved = step.saved
    if not working.beyond or ((working.saved or 0) > 0) != (saved > 0):
        why = "only idle time changed so, and it includes profiler overhead"
        return CompareVerdict("inconclusive", f"{text}: {why}", TRACES)
    word = "less" if saved > 0 else "more"
    answer = "faster" if saved > 0 else "slower"
    return CompareVerdict(
        answer, f"{time_text(abs(saved))} {word} per step: {text}", TRACES, saved, saved
    )


Said = tuple[str, bool]  # a sentence, and whether it is about a change


def _time_sentence(words: str, value: ChangeEntry) -> Said:
    if value.saved is None:
        return "", False
    if value.beyond:
        return f"{words}: {change_text(value.a, value.b)} ({ratio_text(value.ratio)})", True
    return f"{words}: {change_text(value.a, value.b)}, no change beyond the noise", False


def _last_sentence(a: JobDocument, b: JobDocument) -> Said:
    """Which rank each job waits for, and whether that changed."""
    unknown = [name for name, side in (("A", a), ("B", b)) if not _knows_waits(side)]
    if unknown:
        return f"who waits for whom is unknown in {' and '.join(unknown)}", False
    first, second = _last(a), _last(b)
    if first is None and second is None:
        return "no rank makes the others wait", False
    texts = ("no rank" if side is None else _last_text(side) for side in (first, second))
    who = [(side.rank, side.cause) if side else None for side in (first, second)]
    same = None not in who and who[0] == who[1]
    return "the others wait for {} in A, {} in B".format(*texts), not same


def _knows_waits(document: JobDocument) -> bool:
    return any(row.wait_ns is not None for row in document.ranks)


def _last_text(side: LastRank) -> str:
    host = f" ({side.host})" if side.host else ""
    cause = f" ({side.cause.replace('_', ' ')})" if side.cause else ""
    return f"rank {side.rank}{host} {time_text(side.delays_ns)} per step{cause}"


_TIMES = (
    Column("per step", "what", WORDS),
    Column("A", "a", "ns"),
    Column("B", "b", "ns"),
    Column("B / A", lambda row: row.ratio if (row.ratio or 0) < LARGEST else None, "ratio"),
    Column(
        "noise",
        lambda row: percent_text(row.noise) + (", within it" if row.beyond is False else ""),
        TEXT,
    ),
)
_RATES = (
    Column("collective", "collective", WORDS),
    Column("dtype", lambda row: row.dtype, WORDS),
    Column("message", "message_bytes"),
    Column("ranks", "group_size"),
    Column("A", "a", "gbps"),
    Column("B", "b", "gbps"),
    Column("B / A", "ratio"),
)


def page(found: CompareJobsDocument, width: int = WIDTH) -> list[Table]:
    """As many collectives as fit 25 lines."""
    lines = []
    for letter, job, steps in (("A", found.a, found.steps_a), ("B", found.b, found.steps_b)):
        name = shorten(os.path.basename(job.path.rstrip("/")) or job.path, NAME)
        text = f"{name} · {read_text(job)} · {plural(steps, 'whole step')}"
        lines.append(Line(letter, text))
    lines += [Line(found.verdict.answer.upper(), found.verdict.text), Line("LAST", found.last)]
    means = "step: the longest rank; the rest: means over the ranks"
    head = Table("", _TIMES, found.times, means, lines)

    def tables(most: int) -> list[Table]:
        left = len(found.network) - most
        more = f"and {count_text(left)} more (--json)" if left else ""
        rates = Table("Bus bandwidth, GB/s", _RATES, found.network[:most], more)
        return [head, *([rates] if most else [])]

    return fitted(tables, len(found.network), width)
