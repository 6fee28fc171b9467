"""What to do first about a job: the fixes that its traces prove, by largest possible saving."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median_low

from msgspec import Struct

from foretrace.base.units import percent_text, ratio_text, time_text
from foretrace.schema.documents.job import JobDocument, JobHost, JobOutlier, JobRank
from foretrace.show.overview.fixes import WORTH
from foretrace.show.overview.job_lines import longest_stage, rates, slowest_link
from foretrace.show.overview.job_words import a_step, per_step, rank_text

OWN = ("compute", "host", "data", "copies")  # causes that are the rank's own
MOST = 0.75  # of a host's ranks
UNLIKE = 2  # times the usual rank or host: noise makes everybody late in turn
FEED = "load data faster (workers, prefetch, pin_memory)"


class JobFix(Struct, frozen=True):
    """Something to do, what it saves per step, and the estimate of a replay.

    `how`: the saving is an upper bound or, for a rank that others wait for, an estimate.
    """

    text: str
    saves_ns: int
    replayed: str = ""
    how: str = "at most"


def worth_ns(document: JobDocument) -> float:
    """The least saving per step that is worth a line: 1% of the step."""
    return max(WORTH * (document.job.step_ns or 0), 1)


def stragglers(document: JobDocument) -> list[JobRank]:
    """The ranks whose delay a step feels by 1% or more, the worst first.

    A rank that other collectives made late is not to blame, nor is one that is late no more than
    the others are in turn.
    """
    least = worth_ns(document)
    found = [row for row in document.ranks if (row.exposed_delays_ns or 0) >= least]
    own = [row for row in found if row.cause in OWN and not in_turn(document, row)]
    return sorted(own, key=lambda row: -(row.exposed_delays_ns or 0))


def slow_hosts(document: JobDocument) -> list[JobHost]:
    """The hosts whose ranks are late by their own fault, or whose network is slow."""
    worth = worth_ns(document)
    own = Counter(row.host for row in document.ranks if row.delays_ns and row.cause in OWN)
    found = [
        row
        for row in document.hosts
        if row.slow
        and (row.exposed_delays_ns or 0)
        >= max(worth, UNLIKE * _usual([each for each in document.hosts if each is not row]))
        and (own[row.host] >= MOST * row.ranks or slow_network(document, row))
    ]
    return sorted(found, key=lambda row: -(row.exposed_delays_ns or 0))


def in_turn(document: JobDocument, row: JobRank) -> bool:
    """Whether the usual rank is late about as much: noise, and no rank to fix."""
    delays = row.exposed_delays_ns or 0
    return worth_ns(document) <= delays < UNLIKE * _usual(document.ranks)


def _usual(rows: Sequence[JobRank | JobHost]) -> int:
    return median_low([row.exposed_delays_ns or 0 for row in rows] or [0])


def slow_network(document: JobDocument, host: JobHost) -> JobOutlier | None:
    """The slow link that explains why a host's ranks are late through other collectives."""
    return slowest_link(document, host.host) if host.cause == "other_comms" else None


def fixes(document: JobDocument) -> list[JobFix]:
    """Fixes worth 1% of a step: late ranks first, their evidence is direct; then by saving."""
    late = [*_late(document), *_network(document)]
    rest = [*_exposed(document), *_pipeline(document), *_idle(document)]
    ordered = [sorted(each, key=lambda fix: -fix.saves_ns) for each in (late, rest)]
    return [fix for each in ordered for fix in each if fix.saves_ns >= worth_ns(document)]


def sentence(document: JobDocument, fix: JobFix) -> str:
    """A fix with what it saves."""
    saves = f"saves {fix.how} {time_text(fix.saves_ns)}{per_step(document)}"
    return f"{fix.text}; {saves}{fix.replayed}"


def _late(document: JobDocument) -> Iterator[JobFix]:
    """A slow host, or else each rank that comes last."""
    hosts = slow_hosts(document)
    for host in hosts:
        if slow_network(document, host) is None:
            yield JobFix(f"inspect host {host.host}", host.delays_ns, how="about")
    slow = {host.host for host in hosts}
    for row in stragglers(document):
        if not row.host or row.host not in slow:
            saves = row.delays_ns or 0
            replayed = _replayed(document, f"rank {row.rank}", saves)
            yield JobFix(_of_rank(row), saves, replayed, how="about")


def _network(document: JobDocument) -> Iterator[JobFix]:
    """The slowest link; a step cannot go below what its ranks do without communication."""
    link = slowest_link(document)
    if link is not None:
        which = f"the network of {link.what}" if link.kind == "host" else f"{link.kind} {link.what}"
        saves = _left_by(document, lambda row: row.exposed_ns or 0)
        replayed = _replayed(document, f"network of {link.what}", saves)
        yield JobFix(f"inspect {which}: {rates(link)}", saves, replayed)


def _left_by(document: JobDocument, part: Callable[[JobRank], int]) -> int:
    """What a step saves at most if this part of every rank took no time."""
    walls = [(row.wall_ns or 0, part(row)) for row in document.ranks]
    longest = max((wall for wall, _ in walls), default=0)
    return longest - max((wall - own for wall, own in walls), default=0)


def _replayed(document: JobDocument, what: str, saves_ns: int) -> str:
    """What a replay of the median step saves with this change, where that is less."""
    path = document.path
    for change in path.what_ifs if path and path.step >= 0 else []:
        if path and change.what == what and 0 < change.saves_ns < saves_ns:
            return f" ({time_text(change.saves_ns)} in a replay of step {path.step})"
    return ""


def _of_rank(row: JobRank) -> str:
    who, look = rank_text(row), _look(row)
    if row.slow == "gpu":
        ratio = f" {ratio_text(row.kernel_ratio)} as long" if row.kernel_ratio else " longer"
        return f"inspect the GPU of {who}: clocks, power, heat; the same kernels take{ratio}"
    if row.slow == "code":
        return f"balance the work: {who} runs more or other kernels than its peers"
    return {
        "data": f"{FEED} on {who}: its GPU waits for data",
        "host": f"see why the host of {who} is late: {look}",
        "copies": f"see what {who} copies before its collectives: {look}",
        "compute": f"see what {who} computes longer than the others: {look}",
    }[row.cause]


def _exposed(document: JobDocument) -> Iterator[JobFix]:
    """What compute could hide of the transfers; waits for late ranks are another fix's."""
    kinds = Counter[str]()
    for row in document.overlap:
        alone = row.exposed_ns - (row.wait_ns or 0)
        kinds[row.collective] += round(alone * row.ranks / max(document.job.ranks, 1))
    rows = [(row.exposed_ns or 0) - (row.exposed_wait_ns or 0) for row in document.ranks]
    for kind, total in kinds.most_common(1):
        alone = min(total, round(fmean(rows)))  # two at a time count once
        most = min(alone, document.perfect_overlap_ns or 0)
        time = f"{time_text(alone)}{per_step(document)}"
        yield JobFix(f"overlap {kind} with compute: {time} is alone", most)


def _pipeline(document: JobDocument) -> Iterator[JobFix]:
    for row in sorted(document.bubbles, key=lambda row: -row.bubble_ns)[:1]:
        wait = f"stage {row.stage} waits {row.share:.0%} of {a_step(document)}"
        text = f"shorten the pipeline's bubbles (more microbatches): {wait}"
        uneven = "" if stragglers(document) else longest_stage(document)
        yield JobFix(f"balance the stages: {uneven}" if uneven else text, row.bubble_ns)


def _idle(document: JobDocument) -> Iterator[JobFix]:
    """Idle time of all ranks: a step cannot go below what its busiest rank does."""
    rows = [row for row in document.ranks if row.wall_ns and row.idle_ns is not None]
    if not rows or not document.job.kernels:
        return
    busiest = max(rows, key=lambda row: (row.wall_ns or 0) - (row.idle_ns or 0))
    saves = _left_by(document, lambda row: row.idle_ns or 0)
    share = percent_text((busiest.idle_ns or 0) / (busiest.wall_ns or 1))
    which = "every GPU" if len(rows) > 1 else "the GPU"
    idle = f"see why {which} idles, {share} of {a_step(document)}"
    if 2 * (busiest.data_ns or 0) > (busiest.idle_ns or 0):
        idle = f"{FEED}: {which} idles, {share} of {a_step(document)}"
    yield JobFix(f"{idle} on {rank_text(busiest)}: {_look(busiest)}", saves)


def _look(row: JobRank) -> str:
    return "its trace" if "://" in row.path else f"foretrace look {shlex.quote(row.path)}"
