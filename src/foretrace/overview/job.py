"""A job in words: who makes the others wait, what is exposed, what to do first, and the rest.

This is the only author: terminal, Markdown and HTML show these lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING

from foretrace.overview.job_repairs import repairs, slow_hosts, stragglers
from foretrace.overview.job_words import cause_text, missing, missing_text, rank_text
from foretrace.overview.page import Line
from foretrace.schema.documents.job import JobDocument, JobNetwork, JobRank, JobVerdict
from foretrace.schema.ledger import GRAVE
from foretrace.units import (
    bytes_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)

if TYPE_CHECKING:
    from foretrace.jobs.job import Job

LABELS = {
    "straggler": "STRAGGLER",
    "slow_host": "SLOW HOST",
    "balanced": "NO STRAGGLER",
    "inconclusive": "INCONCLUSIVE",
    "unknown": "WAITS UNKNOWN",
}


def overview_of_job(job: Job) -> JobDocument:
    """Everything about a job, with the verdict in words."""
    from foretrace.jobs.summary import summarize

    found = summarize(job)
    found.verdict = verdict(found)
    return found


def verdict(document: JobDocument) -> JobVerdict:
    """What holds the job up, and the two repairs that can save the most."""
    bound, text = _judged(document)
    first, then = [*(each.sentence for each in repairs(document)), "", ""][:2]
    return JobVerdict(bound, text, first, then)


def title(document: JobDocument) -> str:
    """`64 of 64 ranks on 8 hosts · NVIDIA H100 · 3 steps of 181 ms`."""
    job = document.job
    of = (
        f"{job.ranks:,} of {job.world_size:,} ranks"
        if job.world_size
        else plural(job.ranks, "rank")
    )
    hosts = f" on {plural(job.hosts, 'host')}" if job.hosts else ""
    devices = [job.devices[0]] if len(job.devices) == 1 else [plural(len(job.devices), "device")]
    steps = f"{plural(len(job.steps), 'step')} of {time_text(job.step_ns)}"
    parts = [f"{of}{hosts}", *(devices if job.devices else []), *([steps] if job.steps else [])]
    return " · ".join(parts)


def lines(document: JobDocument) -> list[Line]:
    """The lines of the first screen above its table."""
    said = document.verdict
    return [
        Line(LABELS[said.bound], said.text),
        *_exposed(document),
        *_pipeline(document),
        Line("DO FIRST", said.first or "the traces prove no repair worth 1% of a step"),
        *([Line("THEN", said.then)] if said.then else []),
        *_network(document),
        _same(document),
        *_not_read(document),
    ]


def _judged(document: JobDocument) -> tuple[str, str]:
    if document.job.ranks < 2 or not document.matched:
        return "unknown", _unmatched(document)
    late, hosts = stragglers(document), slow_hosts(document)
    absent = f"; {text}" if (text := missing_text(document)) else ""
    if hosts:
        worst = hosts[0]
        wait = f"the others wait {_of_step(document, worst.delays_ns)} per step"
        text = f"{worst.host}: its {worst.ranks} ranks come late, {wait}"
        return "slow_host", f"{text}: {cause_text(worst.cause)}{absent}"
    if late:
        return "straggler", _straggler(document, late) + absent
    if document.undecided == document.matched:
        many = plural(document.matched, "collective")
        error = time_text(_clock_error(document))
        text = f"in all {many} the ranks come within the clocks' error ({error})"
        return "inconclusive", text + absent
    return "balanced", _balanced(document) + absent


def _unmatched(document: JobDocument) -> str:
    absent, count = missing(document), document.collectives
    if document.job.ranks < 2:
        rest = f"; {plural(absent, 'other rank')} not read" if absent else ""
        return f"one rank alone does not say who waits for whom{rest}"
    if not count:
        return "no collective was recorded: who waits for whom is not in the traces"
    what = f"{plural(count, 'collective')} recorded, none that two ranks share for certain"
    return f"{what}: no group or sequence number tells"


def _straggler(document: JobDocument, late: list[JobRank]) -> str:
    worst, rest = late[0], late[1:]
    times = f"{count_text(worst.times_last)} of {plural(worst.meetings, 'collective')}"
    wait = f"the others wait {_of_step(document, worst.delays_ns)} per step for it"
    why = cause_text(worst.cause, worst.causes.get(worst.cause))
    if worst.slow == "gpu" and worst.kernel_ratio:
        why += f" ({ratio_text(worst.kernel_ratio)} for the same kernels)"
    others = f"; {plural(len(rest), 'more rank')} by 1% or more" if rest else ""
    return f"{rank_text(worst)} came last in {times}, {wait}: {why}{others}"


def _balanced(document: JobDocument) -> str:
    worst = max(document.ranks, key=lambda row: row.delays_ns or 0)
    text = "no rank makes the others wait for 1% of a step"
    wait = f"{time_text(worst.delays_ns)} for {rank_text(worst)}"
    return f"{text}: at most {wait}" if worst.delays_ns else text


def _of_step(document: JobDocument, ns: int | None) -> str:
    """`16.4 ms (9.1%)`."""
    step = document.job.step_ns
    share = f" ({percent_text((ns or 0) / step)})" if step else ""
    return f"{time_text(ns)}{share}"


def _exposed(document: JobDocument) -> Iterator[Line]:
    exposed = [row.exposed_ns for row in document.ranks if row.exposed_ns is not None]
    if not exposed or not any(exposed):
        return
    text = f"{_of_step(document, round(fmean(exposed)))} per step of communication without compute"
    spread = f", {time_text(min(exposed))} to {time_text(max(exposed))} by rank"
    waits = [row.wait_ns for row in document.overlap if row.wait_ns is not None]
    waiting = f"; {time_text(sum(waits))} of it waiting for late ranks" if waits else ""
    yield Line("EXPOSED", f"{text}{spread if len(exposed) > 1 else ''}{waiting}")


def _pipeline(document: JobDocument) -> Iterator[Line]:
    if document.bubbles:
        worst = max(document.bubbles, key=lambda row: row.bubble_ns)
        stages = plural(len(document.bubbles), "stage")
        idle = f"stage {worst.stage} idles {time_text(worst.bubble_ns)} of a step"
        yield Line("PIPELINE", f"{stages}; {idle} ({percent_text(worst.share)})")


def _network(document: JobDocument) -> Iterator[Line]:
    below = f"; {_outlier(document)}" if document.outliers else ""
    for most in document.network[:1]:
        yield Line("NETWORK", f"{_bandwidth(most)}{below}")


def _bandwidth(row: JobNetwork) -> str:
    over = f" over {plural(row.group_size, 'rank')}" if row.group_size else ""
    what = f"{row.collective}, {bytes_text(row.message_bytes)}{over}"
    least = "at least " if row.at_least else ""
    return f"{what}: {least}{row.bus_gbps:.3g} GB/s on the bus (median of {count_text(row.count)})"


def _outlier(document: JobDocument) -> str:
    worst = min(document.outliers, key=lambda row: row.bus_gbps / row.usual_gbps)
    rate = f"{worst.bus_gbps:.3g} GB/s, its equals {worst.usual_gbps:.3g} GB/s"
    return f"{worst.kind} {worst.what} is slow: {rate} in {worst.collective}"


def _clock_error(document: JobDocument) -> int | None:
    errors = [row.clock.error_ns for row in document.ranks if row.clock.error_ns is not None]
    return max(errors, default=None)


def _same(document: JobDocument) -> Line:
    """Whether the traces are one whole job, and how well their clocks are known."""
    grave = [row.text for row in document.same if row.severity in GRAVE]
    odd = [
        row.text for row in document.same if row.severity not in GRAVE and row.severity != "info"
    ]
    first = ", ".join([*grave, *odd][:2])
    more = f" and {len([*grave, *odd]) - 2} more (--same)" if len([*grave, *odd]) > 2 else ""
    answer = f"{first}{more}" if first else "yes: the same kernels and shapes on every rank"
    return Line("SAME JOB", f"{answer}{_clocks(document)}")


def _clocks(document: JobDocument) -> str:
    if document.job.ranks < 2:
        return ""
    fitted = [row for row in document.ranks if row.clock.fitted]
    if not fitted:
        return "; clocks not fitted: times of two ranks are not comparable"
    error = f"clocks within {time_text(_clock_error(document))}"
    apart = len(document.ranks) - len(fitted)
    return f"; {error}" + (f", {plural(apart, 'rank')} not fitted" if apart else "")


def _not_read(document: JobDocument) -> Iterator[Line]:
    for first in document.left_out[:1]:
        name = first.path.replace("\\", "/").rsplit("/", 1)[-1]
        more = f" and {len(document.left_out) - 1:,} more" if len(document.left_out) > 1 else ""
        count = plural(len(document.left_out), "file")
        yield Line("NOT READ", f"{count}: {name} ({first.code}){more}")
