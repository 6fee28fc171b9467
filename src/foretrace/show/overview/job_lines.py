"""The lines of a job's first screen that are not its verdict: time, network, consistency, files.

Also how sentences name a job's ranks, causes and steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median_low

from foretrace.analyze.jobs.rank_consistency import ranks_text
from foretrace.base.units import bytes_text, count_text, percent_text, plural, time_text
from foretrace.schema.documents.job import JobDocument, JobEntry, JobNetwork, JobOutlier, JobRank
from foretrace.schema.ledger import GRAVE
from foretrace.show.overview.page import Line

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


def cause_word(cause: str) -> str:
    """`other comms`: a cause in a table."""
    return cause.replace("_", " ")


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


HARDLY = 0.01  # of exposed time: waits below are not worth a word
APART = 1.1  # the largest to the smallest of the ranks, from which the range is worth a word
SLOWEST = 0.1  # GB/s that are said as such
SAID = 2  # oddities that the line has room for


def step(document: JobDocument) -> Iterator[Line]:
    """`as recorded: compute 38%, exposed comms 12%, copies 1%, idle 49%`: of all ranks."""
    rows = [row for row in document.ranks if row.wall_ns]
    if not rows:
        return
    whole = sum(row.wall_ns or 0 for row in rows)

    def share(*names: str) -> str:
        return percent_text(sum(getattr(row, name) or 0 for row in rows for name in names) / whole)

    data = f" (data loader {share('data_ns')})" if any(row.data_ns for row in rows) else ""
    parts = (("exposed comms", "exposed_ns"), ("copies", "copy_ns"), ("idle", "idle_ns"))
    rest = ", ".join(f"{name} {share(column)}" for name, column in parts)
    yield Line(
        "STEP" if document.job.steps else "TIME",
        f"as recorded: compute {share('compute_ns')}, {rest}{data}",
    )


def exposed(document: JobDocument) -> Iterator[Line]:
    """Communication under which nothing computes, and how much of it is waiting."""
    times = [row.exposed_ns for row in document.ranks if row.exposed_ns is not None]
    if not times or not document.collectives:
        return
    mean = fmean(times)
    if not mean:
        yield Line("EXPOSED", "nothing: compute hides all communication")
        return
    text = f"{time_text(mean)}{per_step(document)} of communication without compute"
    ends = f", {time_text(min(times))} to {time_text(max(times))} by rank"
    spread = ends if max(times) > APART * min(times) else ""
    waited = fmean(row.exposed_wait_ns or 0 for row in document.ranks)
    wait = f"; {time_text(waited)} of it waiting for other ranks" if waited >= HARDLY * mean else ""
    yield Line("EXPOSED", f"{text}{spread}{wait}")


def pipeline(document: JobDocument) -> Iterator[Line]:
    """The stage that waits longest for the others."""
    if document.bubbles:
        worst = max(document.bubbles, key=lambda row: row.bubble_ns)
        stages = plural(len(document.bubbles), "stage")
        wait = f"{time_text(worst.bubble_ns)} of {a_step(document)}"
        idle = f"stage {worst.stage} waits {wait} for the others"
        long = f"; {text}" if (text := longest_stage(document)) else ""
        yield Line("PIPELINE", f"{stages}; {idle} ({percent_text(worst.share)}){long}")


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


def network(document: JobDocument) -> Iterator[Line]:
    """The collective that takes most time, and what is slower than its equals."""
    slow = slowest_link(document)
    below = f"; {slow.kind} {slow.what} is slow: {rates(slow)}" if slow else ""
    whole = [row for row in document.network if not row.at_least]
    for most in (whole or document.network)[:1]:
        yield Line("NETWORK", f"{_bandwidth(most)}{below}")


def _bandwidth(row: JobNetwork) -> str:
    over = f" over {plural(row.group_size, 'rank')}" if row.group_size else ""
    what = f"{row.collective}, {bytes_text(row.message_bytes)}{over}"
    least = "at least " if row.at_least else ""
    return f"{what}: {least}{_rate(row.bus_gbps)} on the bus (median of {count_text(row.count)})"


def _rate(gbps: float) -> str:
    return f"{gbps:.3g} GB/s" if gbps >= SLOWEST else f"{1000 * gbps:.3g} MB/s"


def slowest_link(document: JobDocument, host: str = "") -> JobOutlier | None:
    """The outlier that is furthest below its equals, of all or of one host."""
    found = [row for row in document.outliers if not host or (row.kind, row.what) == ("host", host)]
    return min(found, key=lambda row: row.bus_gbps / row.usual_gbps, default=None)


def rates(row: JobOutlier) -> str:
    """`20 GB/s in all-reduce of 4.2 MB, its equals 100 GB/s`."""
    what = f"{row.collective} of {bytes_text(row.message_bytes)}"
    return f"{_rate(row.bus_gbps)} in {what}, its equals {_rate(row.usual_gbps)}"


def same(document: JobDocument) -> Iterator[Line]:
    """Whether the traces are one whole job, and how well their clocks are known."""
    worst = [row.text for row in document.same if row.severity in GRAVE]
    odd = worst + [row.text for row in document.same if row.severity == "notice"]
    odd += [note.text for note in document.notes if note.severity != "info"]
    more = f"; {len(odd) - SAID} more (--same)" if len(odd) > SAID else ""
    kernels = " with the same kernels and shapes" if document.job.kernels else ""
    answer = "; ".join(odd[:SAID]) + more if odd else f"yes: ranks of one run{kernels}"
    if odd or document.job.ranks > 1:
        many = f"{count_text(document.by_order)} of {plural(document.matched, 'collective')}"
        order = f"; {many} matched by order: they have no numbers" if document.by_order else ""
        yield Line("SAME JOB", f"{answer}{order}{_clocks(document)}")


def _clocks(document: JobDocument) -> str:
    fitted = sum(row.clock.fitted for row in document.ranks)
    apart = len(document.ranks) - fitted
    if not fitted or not document.matched:
        return ""
    error = f"; clocks within {time_text(clock_error(document))}"
    return error + (f", those of {plural(apart, 'rank')} not fitted" if apart else "")


def not_read(document: JobDocument) -> Iterator[Line]:
    """The files that were left out."""
    for first in document.left_out[:1]:
        name = first.path.replace("\\", "/").rsplit("/", 1)[-1]
        more = f" and {len(document.left_out) - 1:,} more" if len(document.left_out) > 1 else ""
        count = plural(len(document.left_out), "file")
        yield Line("NOT READ", f"{count}: {name} ({first.code}){more}")
