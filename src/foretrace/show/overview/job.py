"""A job in words: who makes the others wait, what is exposed, what to do first, and the rest.

This is the only author: terminal, Markdown and HTML show these lines.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from foretrace.base.units import count_text, plural, ratio_text, time_text
from foretrace.schema.documents.job import JobDocument, JobHost, JobRank, JobVerdict
from foretrace.show.overview.job_fixes import (
    fixes,
    in_turn,
    sentence,
    slow_hosts,
    slow_network,
    stragglers,
    worth_ns,
)
from foretrace.show.overview.job_lines import (
    exposed,
    network,
    not_read,
    pipeline,
    rates,
    same,
    step,
)
from foretrace.show.overview.job_words import (
    a_step,
    cause_text,
    clock_error,
    missing,
    missing_text,
    of_step,
    per_step,
    rank_text,
)
from foretrace.show.overview.page import Line

if TYPE_CHECKING:
    from foretrace.analyze.jobs.job import Job

LABELS = {
    "straggler": "STRAGGLER",
    "slow_host": "SLOW HOST",
    "balanced": "NO STRAGGLER",
    "inconclusive": "INCONCLUSIVE",
    "unknown": "WAITS UNKNOWN",
}
ONE_STEP = 0.9  # of what the others wait: the other steps are not worth a word
NOTHING = "the traces prove no fix worth 1% of the time"
NEARLY = 0.95  # all of it
UNEVEN = 1.1  # mean to median step, from which both are said


def overview_of_job(job: Job) -> JobDocument:
    """Everything about a job, with the verdict in words."""
    from foretrace.analyze.jobs.summary import summarize

    found = summarize(job)
    found.verdict = verdict(found)
    return found


def verdict(document: JobDocument) -> JobVerdict:
    """What holds the job up, and the two fixes that can save the most."""
    bound, text = _judged(document)
    first, then = [*(sentence(document, each) for each in fixes(document)), "", ""][:2]
    return JobVerdict(bound, text, first, then)


def title(document: JobDocument) -> str:
    """`64 of 64 ranks on 8 hosts · NVIDIA H100 · 3 steps of 181 ms`."""
    job = document.job
    world = f"{job.ranks:,} of {plural(job.world_size or 0, 'rank')}"
    parts = [world if job.world_size else plural(job.ranks, "rank")]
    parts[0] += f" on {plural(job.hosts, 'host')}" if job.hosts else ""
    if job.devices:
        parts.append(
            job.devices[0] if len(job.devices) == 1 else f"{len(job.devices)} kinds of GPU"
        )
    if job.steps:
        mean, median = job.step_ns or 0, job.median_step_ns or 0
        uneven = median and not 1 / UNEVEN < mean / median < UNEVEN
        of = f"{time_text(mean)} (median {time_text(median)})" if uneven else time_text(mean)
        parts.append(f"{plural(len(job.steps), 'step')} of {of}")
    return " · ".join(parts)


def lines(document: JobDocument) -> list[Line]:
    """The lines of the first screen above its table."""
    said = document.verdict
    return [
        Line(LABELS[said.bound], said.text),
        *step(document),
        *exposed(document),
        *pipeline(document),
        Line("DO FIRST", said.first or NOTHING),
        *([Line("THEN", said.then)] if said.then else []),
        *network(document),
        *same(document),
        *not_read(document),
    ]


def _judged(document: JobDocument) -> tuple[str, str]:
    if not document.matched or not any(row.clock.fitted for row in document.ranks):
        return "unknown", _unmatched(document)
    late, hosts = stragglers(document), slow_hosts(document)
    absent = f"; {text}" if (text := missing_text(document)) else ""
    longest = max((row.delays_ns or 0 for row in late), default=0)
    if hosts and hosts[0].delays_ns >= longest:
        return "slow_host", _slow_host(document, hosts[0]) + absent
    if late:
        return "straggler", _straggler(document, late) + absent
    if document.undecided == document.matched:
        bound, text = _within_error(document)
    else:
        bound, text = _balanced(document)
    return "inconclusive" if absent else bound, text + absent


def _unmatched(document: JobDocument) -> str:
    absent, count = missing(document), document.collectives
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


def _slow_host(document: JobDocument, worst: JobHost) -> str:
    link = slow_network(document, worst)
    why = f"its network is slow, {rates(link)}" if link else cause_text(worst.cause)
    wait = f"the others wait {_waited(document, worst)}"
    return f"the {plural(worst.ranks, 'rank')} of {worst.host} come late: {why}; {wait}"


def _straggler(document: JobDocument, late: list[JobRank]) -> str:
    worst, rest = late[0], late[1:]
    times = f"{count_text(worst.times_last)} of {plural(worst.collectives, 'collective')}"
    why = cause_text(worst.cause, worst.causes.get(worst.cause))
    if worst.slow == "gpu" and worst.kernel_ratio:
        why += f" ({ratio_text(worst.kernel_ratio)} for the same kernels)"
    why += " (more or other kernels)" if worst.slow == "code" else ""
    wait = f"the others wait {_waited(document, worst)}{_in_step(document, worst)}"
    others = f"; 1% or more for {plural(len(rest), 'more rank')}" if rest else ""
    return f"{rank_text(worst)} came last in {times}: {why}; {wait}{others}"


def _waited(document: JobDocument, worst: JobRank | JobHost) -> str:
    """`15.3 ms per step for it, of which the step feels at most 8.21 ms (7.0%)`."""
    wait, alone = worst.delays_ns or 0, worst.exposed_delays_ns or 0
    per = f"{per_step(document)} for {'them' if isinstance(worst, JobHost) else 'it'}"
    if alone >= NEARLY * wait:
        return f"{of_step(document, wait)}{per}"
    felt = f"{a_step(document)} feels at most {of_step(document, alone)}"
    return f"{time_text(wait)}{per}, of which {felt}"


def _in_step(document: JobDocument, worst: JobRank) -> str:
    """Where one step alone has the delay, which; the times are means over all steps."""
    by_step = Counter[int]()
    for cell in document.cells:
        if cell.rank == worst.rank:
            by_step[cell.step] += cell.delays_ns or 0
    for number, delay in by_step.most_common(1):
        if len(by_step) > 1 and delay >= ONE_STEP * by_step.total():
            return f", all of it in step {number}"
    return ""


def _within_error(document: JobDocument) -> tuple[str, str]:
    """No straggler if even the error, in every collective of a step, is below 1% of it."""
    error, steps = clock_error(document) or 0, max(len(document.job.steps), 1)
    most = error * max(row.collectives for row in document.ranks) / steps
    text = (
        f"in all {plural(document.matched, 'collective')} the ranks come within the clocks' error"
    )
    bound = "balanced" if most < worth_ns(document) else "inconclusive"
    return bound, f"{text} ({time_text(error)})"


def _balanced(document: JobDocument) -> tuple[str, str]:
    worst = max(document.ranks, key=lambda row: row.exposed_delays_ns or 0)
    others = "the others of its stage" if document.bubbles else "the others"
    text = f"no rank makes {others} wait for 1% of {a_step(document)}"
    wait = f"{time_text(worst.exposed_delays_ns)} for {rank_text(worst)}"
    if in_turn(document, worst):
        most = f"at most {wait}{per_step(document)}"
        return "balanced", f"no rank alone makes {others} wait: all come late in turn, {most}"
    if (worst.exposed_delays_ns or 0) >= worth_ns(document):
        return "inconclusive", f"the others wait {wait}, and the traces do not say why"
    if (error := clock_error(document) or 0) >= worth_ns(document):
        return "inconclusive", f"{text} beyond the clocks' error ({time_text(error)})"
    return "balanced", f"{text}: at most {wait}" if worst.exposed_delays_ns else text
