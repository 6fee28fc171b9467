"""The verdict on a job: which rank makes the others wait, and what to do first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median_low

from msgspec import Struct

from foretrace.base.units import bytes_text, count_text, percent_text, plural, ratio_text, time_text
from foretrace.jobs.documents import JobDocument, JobEntry, JobHost, JobOutlier, JobRank, JobVerdict
from foretrace.jobs.network import link_text
from foretrace.jobs.rank_consistency import ranks_text
from foretrace.jobs.waits import OWN_CAUSES
from foretrace.look.measured_step import WORTH

# the time of a rank in which each cause shows
SPENT = {"compute": "compute_ns", "host": "host_ns", "data": "data_ns", "copies": "copy_ns"}
MOST = 0.75  # of a host's ranks
UNLIKE = 2  # times the usual rank or host: noise makes everybody late in turn
FEED = "load data faster (workers, prefetch, pin_memory)"


class JobFix(Struct, frozen=True):
    """Something to do, and what it saves per step: an upper bound, or `about` what a replay saves.
    `more` says what the saving needs.
    """

    text: str
    saves_ns: int
    how: str = "at most"
    more: str = ""


def worth_ns(document: JobDocument) -> float:
    """The least saving per step that is worth a line: 1% of the step."""
    return max(WORTH * (document.job.step_ns or 0), 1)


def stragglers(document: JobDocument) -> list[JobRank]:
    """The ranks whose delay lengthens a step by 1% or more, the worst first.

    A rank that other collectives made late does not count, nor does one that is late no more than
    the others are in turn, or by less than the clocks' error, or whose own times do not show why.
    """
    least = max(worth_ns(document), clock_error(document) or 0)
    found = [row for row in document.ranks if (row.exposed_delays_ns or 0) >= least]
    own = [row for row in found if is_evident(document, row) and not in_turn(document, row)]
    return sorted(own, key=lambda row: -(row.exposed_delays_ns or 0))


def is_evident(document: JobDocument, row: JobRank) -> bool:
    """Whether a rank spends more time on the cause of its delay than the usual rank of its stage:
    at least a quarter of the delay.
    """
    if row.cause not in SPENT:
        return False
    stage = next((each.ranks for each in document.bubbles if row.rank in each.ranks), None)
    peers = [each for each in document.ranks if stage is None or each.rank in stage]
    own, *others = (getattr(each, SPENT[row.cause]) for each in (row, *peers))
    known = [each for each in others if each is not None]
    return own is None or 4 * (own - median_low(known)) >= (row.delays_ns or 0)


def slow_hosts(document: JobDocument) -> list[JobHost]:
    """The hosts whose ranks are late for one reason of their own, or whose network is slow."""
    worth = worth_ns(document)
    late = (row for row in document.ranks if row.delays_ns and row.cause in OWN_CAUSES)
    own = Counter((row.host, row.cause) for row in late)
    found = [
        row
        for row in document.hosts
        if row.slow
        and row.ranks < len(document.ranks)
        and (row.exposed_delays_ns or 0)
        >= max(worth, UNLIKE * _usual([each for each in document.hosts if each is not row]))
        and (own[row.host, row.cause] >= MOST * row.ranks or slow_network(document, row))
    ]
    return sorted(found, key=lambda row: -(row.exposed_delays_ns or 0))


def in_turn(document: JobDocument, row: JobRank) -> bool:
    """Whether the usual rank is late by about as much: that is noise, no rank needs a fix."""
    delays = row.exposed_delays_ns or 0
    return worth_ns(document) <= delays < UNLIKE * _usual(document.ranks)


def _usual(rows: Sequence[JobRank | JobHost]) -> int:
    """What the usual one delays the others by its own fault."""
    own = [(row.exposed_delays_ns or 0) * (row.cause in OWN_CAUSES) for row in rows]
    return median_low(own or [0])


def slow_network(document: JobDocument, host: JobHost) -> JobOutlier | None:
    """The slow link that explains why a host's ranks are late through other collectives."""
    return slowest_link(document, host.host) if host.cause == "other_comms" else None


def fixes(document: JobDocument) -> list[JobFix]:
    """Fixes worth 1% of a step: late ranks first, their evidence is direct; then by saving."""
    hosts = []  # the slow ones whose network is as fast as that of others
    for host in slow_hosts(document):
        if slow_network(document, host) is None:
            replayed = _replayed(document, [row for row in document.ranks if row.host == host.host])
            hosts.append(_saving(document, f"inspect host {host.host}", replayed, host))
    late = [hosts, list(_late(document)), list(_network(document))]
    late.sort(key=lambda each: -max((fix.saves_ns for fix in each), default=0))
    rest = [*_exposed(document), *_pipeline(document), *_idle(document)]
    ordered = [*late, sorted(rest, key=lambda fix: -fix.saves_ns)]
    return [fix for each in ordered for fix in each if fix.saves_ns >= worth_ns(document)]


def _saving(
    document: JobDocument, text: str, replayed: int | None, late: JobRank | JobHost
) -> JobFix:
    """What the replay saves; where it says nothing, at most what the others wait."""
    if replayed is None:
        return JobFix(text, late.exposed_delays_ns or 0)
    return JobFix(text, replayed, _how(document))


def _how(document: JobDocument) -> str:
    """An upper bound where the replay lacks a rank: that one may be as late."""
    path, ranks = document.path, document.job.ranks + document.job.missing
    return "at most" if path and path.compared and path.compared < ranks else "about"


def _late(document: JobDocument) -> Iterator[JobFix]:
    """The ranks that come last, of no slow host: one after the other, where that saves something.

    What each saves holds after the fixes before it.
    """
    slow = {host.host for host in slow_hosts(document)}
    late = [row for row in stragglers(document) if not row.host or row.host not in slow]
    saved, since = 0, 0
    for count in range(1, len(late) + 1):
        saves = _replayed(document, late[:count])
        if count == 1 and saves is None:
            yield _saving(document, _of_rank(late[0]), None, late[0])
            since = 1
        elif saves is not None and saves - saved >= worth_ns(document):
            yield _together(document, late[since:count], saves - saved, bool(saved))
            saved, since = saves, count


def _together(document: JobDocument, late: list[JobRank], saves: int, then: bool) -> JobFix:
    """The fix of one rank, or of several of which one alone saves nothing."""
    more = " more" if then else ""
    if len(late) == 1:
        return JobFix(_of_rank(late[0]), saves, _how(document), more)
    rest = ", ".join(map(rank_text, late[1:]))
    alone = None if then else _replayed(document, late[:1])
    one = "" if alone is None else f", {time_text(alone)} with rank {late[0].rank} alone"
    text = f"{_of_rank(late[0])}; {rest} {'is' if len(late) == 2 else 'are'} late too"
    every = "both" if len(late) == 2 else f"all {len(late)}"
    return JobFix(text, saves, _how(document), f"{more} with {every}{one}")


def _replayed(document: JobDocument, late: list[JobRank]) -> int | None:
    """What a replay of the median step saves with these ranks at the median; None where it was not
    replayed, or where the ranks are late in other steps than that one. Where they are late in that
    one above all, as much less as in the mean step.
    """
    path, ranks = document.path, {row.rank for row in late}
    here = sum(
        cell.delays_ns or 0
        for cell in document.cells
        if path and cell.step == path.step and cell.rank in ranks
    )
    mean = sum(row.delays_ns or 0 for row in late)
    if path is None or 2 * here < mean:
        return None
    share = mean / here if here > 2 * mean else 1
    found = (each.saves_ns for each in path.what_ifs if set(each.ranks) == ranks)
    return next((round(share * saves) for saves in found), None)


def _network(document: JobDocument) -> Iterator[JobFix]:
    """The slowest link; a step cannot go below what its ranks do without communication."""
    if (link := slowest_link(document)) is not None:
        which, saves = link_text(link.kind, link.what), link_saves(document)
        text, how = f"inspect {which}: {rates(link)}", _how(document)
        # a replay knows no wait for a rank that is cut
        if saves is None or unjudged(document):
            saves, how = _left_by(document, lambda row: row.exposed_ns or 0), "at most"
        yield JobFix(text, saves, how)


def link_saves(document: JobDocument) -> int | None:
    """What a replay saves if the slowest link had the bandwidth of its equals."""
    link = slowest_link(document)
    what = link_text(link.kind, link.what) if link else ""
    found = document.path.what_ifs if document.path else []
    return next((each.saves_ns for each in found if each.what == what), None)


def _left_by(document: JobDocument, part: Callable[[JobRank], int]) -> int:
    """What a step saves at most if this part of every rank took no time."""
    walls = [(row.wall_ns or 0, part(row)) for row in document.ranks]
    longest = max((wall for wall, _ in walls), default=0)
    return longest - max((wall - own for wall, own in walls), default=0)


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
    """What compute could hide of the transfers; other fixes cover the waits for late ranks."""
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


ONE_STEP = 0.9  # of what the others wait: the other steps are not worth a word


def verdict(document: JobDocument) -> JobVerdict:
    """What holds the job up, and the two fixes that can save the most."""
    bound, text = _judged(document)
    per = per_step(document)
    texts = [
        f"{fix.text}; saves {fix.how} {time_text(fix.saves_ns)}{per}{fix.more}"
        for fix in fixes(document)
    ]
    first, then = [*texts, "", ""][:2]
    return JobVerdict(bound, text, first, then)


def _judged(document: JobDocument) -> tuple[str, str]:
    if not document.matched or not any(row.clock.fitted for row in document.ranks):
        return "unknown", _unmatched(document)
    late, hosts = stragglers(document), slow_hosts(document)
    absent = partly_text(document)
    longest = max((row.delays_ns or 0 for row in late), default=0)
    if hosts and hosts[0].delays_ns >= longest:
        worst = hosts[0]
        link, why = slow_network(document, worst), cause_text(worst.cause)
        why = f"its network is slow, {rates(link)}" if link else why
        who = f"the {plural(worst.ranks, 'rank')} of {worst.host} come late"
        return "slow_host", f"{who}: {why}; the others wait {_waited(document, worst)}{absent}"
    if late:
        return "straggler", _straggler(document, late) + absent
    link, saves = slowest_link(document), link_saves(document) or 0
    if link and saves >= worth_ns(document):
        which = link_text(link.kind, link.what)
        cost = f"{_how(document)} {of_step(document, saves)}{per_step(document)}"
        return "slow_link", f"{which} is slow: {rates(link)}; it costs {cost}{absent}"
    judge = _within_error if document.undecided == document.matched else _balanced
    bound, text = judge(document)
    known = not document.job.missing and not unjudged(document)
    return bound if known else "inconclusive", text + absent


def _unmatched(document: JobDocument) -> str:
    absent, count = document.job.missing, document.collectives
    if document.job.ranks < 2:
        rest = f"; {plural(absent, 'other rank')} missing" if absent else ""
        return f"one rank alone does not say who waits for whom{rest}"
    if not count:
        return "no collective was recorded: who waits for whom is not in the traces"
    if document.matched:
        many = plural(document.matched, "collective")
        return f"no clocks fit the {many} of these ranks: who waits for whom is unknown"
    if document.unnamed == count:
        many = plural(count, "collective")
        return f"{many} recorded without a group: which of them two ranks share is unknown"
    return "no two of these ranks recorded the same collective"


def _straggler(document: JobDocument, late: list[JobRank]) -> str:
    worst, rest = late[0], late[1:]
    times = f"{count_text(worst.times_last)} of {plural(worst.collectives, 'collective')}"
    why = cause_text(worst.cause, worst.causes.get(worst.cause))
    if worst.slow == "gpu" and worst.kernel_ratio:
        why += f" ({ratio_text(worst.kernel_ratio)} for the same kernels)"
    why += " (more or other kernels)" if worst.slow == "code" else ""
    # where one step alone has the delay, which: the times are means over all steps
    by_step, alone = Counter[int](), ""
    for cell in document.cells:
        if cell.rank == worst.rank:
            by_step[cell.step] += cell.delays_ns or 0
    for number, delay in by_step.most_common(1):
        only = worst.steps >= len(document.job.steps)  # else its file has no other steps
        if only and len(by_step) > 1 and delay >= ONE_STEP * by_step.total():
            alone = f", all of it in step {number}"
    others = f"; 1% or more for {plural(len(rest), 'more rank')}" if rest else ""
    wait = f"the others wait {_waited(document, worst)}{alone}{others}"
    return f"{rank_text(worst)} came last in {times}: {why}; {wait}"


def _waited(document: JobDocument, worst: JobRank | JobHost) -> str:
    """`15.3 ms per step for it, at most 8.21 ms (7.0%) of it without compute`."""
    wait, alone = worst.delays_ns or 0, worst.exposed_delays_ns or 0
    per = f"{per_step(document)} for {'them' if isinstance(worst, JobHost) else 'it'}"
    if alone >= 0.95 * wait:  # all of it
        return f"{of_step(document, wait)}{per}"
    bare = of_step(document, alone)
    return f"{time_text(wait)}{per}, at most {bare} of it without compute"


def _within_error(document: JobDocument) -> tuple[str, str]:
    """No straggler if even the error, in every collective of a step, is below 1% of it."""
    error, steps = clock_error(document) or 0, max(len(document.job.steps), 1)
    most = error * max(row.collectives for row in document.ranks) / steps
    every = f"in all {plural(document.matched, 'collective')} the ranks come within"
    bound = "balanced" if most < worth_ns(document) else "inconclusive"
    return bound, f"{every} the clocks' error ({time_text(error)})"


def _balanced(document: JobDocument) -> tuple[str, str]:
    worst = max(document.ranks, key=lambda row: row.exposed_delays_ns or 0)
    others = "the others of its stage" if document.bubbles else "the others"
    text = f"no rank makes {others} wait for 1% of {a_step(document)}"
    wait = f"{time_text(worst.exposed_delays_ns)} for {rank_text(worst)}"
    if in_turn(document, worst):
        most = f"at most {wait}{per_step(document)}"
        return "balanced", f"no rank alone makes {others} wait: all come late in turn, {most}"
    error = clock_error(document) or 0
    within = f"the clocks' error ({time_text(error)})"
    if (worst.exposed_delays_ns or 0) >= worth_ns(document):
        why = "the traces do not say why"
        why = f"that is within {within}" if (worst.exposed_delays_ns or 0) < error else why
        return "inconclusive", f"the others wait {wait}, and {why}"
    if error >= worth_ns(document):
        return "inconclusive", f"{text} beyond {within}"
    return "balanced", f"{text}: at most {wait}" if worst.exposed_delays_ns else text


ALL = 0.95  # of a delay: the rest is not worth a word
# what made a rank late, as a clause about it
CAUSES = {
    "compute": "its compute takes longer",
    "host": "its host launches late",
    "data": "its data loader is late",
    "copies": "its copies take longer",
    "other_comms": "its collectives in other groups take longer",
    "earlier": "it was late at the collective before",
}


def rank_text(row: JobRank) -> str:
    """`rank 17 (node-2)`; the host only where the files name it."""
    return f"rank {row.rank} ({row.host})" if row.host else f"rank {row.rank}"


def cause_text(cause: str, share: float | None = None) -> str:
    """`its compute takes longer`, `72% because its compute takes longer`."""
    words = CAUSES.get(cause, "the cause is not in the traces")
    is_all = share is None or share >= ALL or cause not in CAUSES
    return words if is_all else f"{share:.0%} because {words}"


def read_text(job: JobEntry) -> str:
    """`63 of 64 ranks`; a rank beyond the world size is not one of them."""
    if not job.world_size or job.ranks > job.world_size - job.missing:
        world = f" (world size {job.world_size:,})" if job.world_size else ""
        return f"{plural(job.ranks, 'rank')}{world}"
    return f"{job.ranks:,} of {plural(job.world_size, 'rank')}"


def unjudged(document: JobDocument) -> list[int]:
    """The ranks without a collective that others share, or without a clock, and those whose files
    are cut within a step: they may have come later than the last.
    """
    steps, cut = max(len(document.job.steps), 1), _lost(document)
    usual = median_low([row.collectives for row in document.ranks] or [0]) / steps
    return [
        row.rank
        for row in document.ranks
        if not (row.collectives and row.clock.fitted)
        or (row.rank in cut and row.collectives < usual)
    ]


def _lost(document: JobDocument) -> set[int]:
    return {rank for each in document.same if each.code == "lost_data" for rank in each.ranks}


def partly_text(document: JobDocument) -> str:
    """Which ranks were judged on a part of the recording, or not at all; each after a `;`."""
    unknown, lost = unjudged(document), _lost(document)
    cut = [row for row in document.ranks if row.rank in lost.difference(unknown)]
    absent, world = document.job.missing, document.job.world_size or 0
    which = "it" if absent == 1 else "any of them"
    missing = f"{absent:,} of {world:,} ranks missing: {which} may have come later"
    parts = [missing] if absent else []
    parts += [f"{ranks_text(unknown)} could not be judged"] if unknown else []
    for row in cut[:1]:
        more = f", and {plural(len(cut) - 1, 'more file')}" if len(cut) > 1 else ""
        part = plural(row.collectives, "collective")
        parts.append(f"the file of rank {row.rank} is cut: judged on {part} that it has{more}")
    return "".join(f"; {part}" for part in parts)


def per_step(document: JobDocument) -> str:
    """` per step`; nothing for a recording without steps, which counts as one."""
    return " per step" if document.job.steps else ""


def a_step(document: JobDocument) -> str:
    """What times are parts of."""
    return "a step" if document.job.steps else "the recording"


def of_step(document: JobDocument, ns: float | None) -> str:
    """`16.4 ms (9.1%)`."""
    step = document.job.step_ns
    share = f" ({percent_text((ns or 0) / step)})" if step else ""
    return f"{time_text(ns)}{share}"


def clock_error(document: JobDocument) -> int | None:
    """The largest error of the fitted clocks."""
    errors = [row.clock.error_ns for row in document.ranks if row.clock.error_ns is not None]
    return max(errors, default=None)


SLOWEST = 0.1  # GB/s that are said as such


def rate_text(gbps: float) -> str:
    """`20 GB/s`."""
    return f"{gbps:.3g} GB/s" if gbps >= SLOWEST else f"{1000 * gbps:.3g} MB/s"


def slowest_link(document: JobDocument, host: str = "") -> JobOutlier | None:
    """The outlier that is furthest below its equals, of all or of one host."""
    found = [row for row in document.outliers if not host or (row.kind, row.what) == ("host", host)]
    return min(found, key=lambda row: row.bus_gbps / row.usual_gbps, default=None)


def rates(row: JobOutlier) -> str:
    """`20 GB/s in all-reduce of 4.2 MB, its equals 100 GB/s`."""
    what = f"{row.collective} of {bytes_text(row.message_bytes)}"
    return f"{rate_text(row.bus_gbps)} in {what}, its equals {rate_text(row.usual_gbps)}"


APART = 1.1  # the largest to the smallest of ranks or stages, from which the range is worth a word


def longest_stage(document: JobDocument) -> str:
    """The stage that computes longer than the usual one: the others wait for it in turn."""
    computed = {row.rank: row.compute_ns for row in document.ranks if row.compute_ns is not None}
    known = {row.stage: set(row.ranks) & computed.keys() for row in document.bubbles}
    by_stage = {
        stage: fmean(computed[rank] for rank in ranks) for stage, ranks in known.items() if ranks
    }
    usual = median_low(by_stage.values()) if by_stage else 0
    most = max(by_stage, key=lambda stage: by_stage[stage], default=0)
    if not usual or by_stage[most] < APART * usual:
        return ""
    times = f"{time_text(by_stage[most])}, the usual one {time_text(usual)}"
    return f"stage {most} computes longest: {times}"
