"""What `job` prints: the first screen, the tables of its options, and ranks as lanes of text."""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import groupby
from statistics import fmean, median

import numpy as np
import polars as pl

from foretrace.base.tables import (
    BULLET,
    TEXT,
    WORDS,
    Column,
    Line,
    Table,
    bulleted,
    filled,
    fitted,
    listed,
    paragraphs,
)
from foretrace.base.terminal import WIDTH, shorten
from foretrace.base.units import (
    bytes_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)
from foretrace.jobs.documents import JobCell, JobDocument, JobRank
from foretrace.jobs.lanes import JobLanes
from foretrace.jobs.rank_consistency import ranks_text
from foretrace.jobs.verdict import (
    APART,
    CAUSES,
    a_step,
    clock_error,
    longest_stage,
    per_step,
    rate_text,
    rates,
    read_text,
    slowest_link,
)
from foretrace.jobs.whole_job import step_name
from foretrace.look.lines import NAME
from foretrace.read.ledger import GRAVE

LABELS = {
    "straggler": "STRAGGLER",
    "slow_host": "SLOW HOST",
    "slow_link": "SLOW LINK",
    "balanced": "NO STRAGGLER",
    "inconclusive": "INCONCLUSIVE",
    "unknown": "WAITS UNKNOWN",
}
NOTHING = "the traces prove no fix worth 1% of the time"
CHANGES = {  # of a replay
    "rank": "at the median of its stage",
    "ranks": "at the median of their stage",
    "host": "with the bandwidth of its equals",
    "group": "with the bandwidth of its equals",
    "link": "with the bandwidth of its equals",
    "collective": "free",
}
UNEVEN = 1.1  # mean to median step, from which both are said
HARDLY = 0.01  # of exposed time: waits below are not worth a word
ODDITIES = 2  # that the line has room for
MOST = 8  # ranks of the first screen
HOST = 16  # letters of a host's name beside a lane


def first_screen(document: JobDocument, width: int = WIDTH) -> list[Table]:
    """The verdict, what to do, the ranks that matter most, and how to see more: 25 lines."""
    top = head(document)
    options = " ".join(f"--{part}" for part in PARTS)
    more = paragraphs("", f"more: {options} --all --html FILE --perfetto FILE")
    ordered = _latest(document)

    def page(most: int) -> list[Table]:
        left = len(ordered) - most
        rest = f"and {plural(left, 'rank')} more" if left and most else ""
        return [Table(top.title, _RANKS, ordered[:most], rest, top.lines), more]

    return fitted(page, min(MOST, len(ordered)), width)


def sections(document: JobDocument, wanted: Collection[str], top: int) -> list[Table]:
    """The parts of the page that the options name, below the verdict."""
    chosen = [part for name, part in PARTS.items() if name in wanted]
    return [head(document), *filled([table for part in chosen for table in part(document, top)])]


def head(document: JobDocument) -> Table:
    """The job and its verdict: `64 of 64 ranks on 8 hosts · NVIDIA H100 · 3 steps of 181 ms`."""
    job = document.job
    parts = [read_text(job)]
    parts[0] += f" on {plural(job.hosts, 'host')}" if job.hosts else ""
    if job.devices:
        several = f"{len(job.devices)} kinds of GPU"
        parts.append(several if len(job.devices) > 1 else job.devices[0])
    if job.steps:
        mean, usual = job.step_ns or 0, job.median_step_ns or 0
        uneven = usual and not 1 / UNEVEN < mean / usual < UNEVEN
        of = f"{time_text(mean)} (median {time_text(usual)})" if uneven else time_text(mean)
        parts.append(f"{plural(len(job.steps), 'step')} of {of}")
    name = shorten(os.path.basename(job.path.rstrip("/")) or job.path, NAME)
    grave = [note for note in document.notes if note.severity in GRAVE]
    warnings = [Line(BULLET, f"! {note.shown}") for note in grave[:1]]
    title = " · ".join([name, *parts])
    return Table(title, lines=[*lines(document), *warnings])


def lines(document: JobDocument) -> list[Line]:
    """The lines of the first screen above its table."""
    verdict = document.verdict
    texts = {
        LABELS[verdict.bound]: verdict.text,
        "STEP" if document.job.steps else "TIME": _step(document),
        "EXPOSED": _exposed(document),
        "PIPELINE": _pipeline(document),
        "DO FIRST": verdict.first or NOTHING,
        "THEN": verdict.then,
        "NETWORK": _network(document),
        "SAME JOB": _same(document),
        "NOT READ": _not_read(document),
    }
    return [Line(label, text) for label, text in texts.items() if text]


def _step(document: JobDocument) -> str:
    """`as recorded: compute 38%, exposed comms 12%, copies 1%, idle 49%`: of all ranks."""
    rows = [row for row in document.ranks if row.wall_ns]
    whole = sum(row.wall_ns or 0 for row in rows)

    def share(name: str) -> str:
        return percent_text(sum(getattr(row, name) or 0 for row in rows) / whole)

    if not rows:
        return ""
    data = f" (data loader {share('data_ns')})" if any(row.data_ns for row in rows) else ""
    copies, idle = share("copy_ns"), share("idle_ns")
    work = f"compute {share('compute_ns')}, exposed comms {share('exposed_ns')}"
    return f"as recorded: {work}, copies {copies}, idle {idle}{data}"


def _exposed(document: JobDocument) -> str:
    """Communication under which nothing computes, and how much of it is waiting."""
    times = [row.exposed_ns for row in document.ranks if row.exposed_ns is not None]
    if not times or not document.collectives:
        return ""
    mean = fmean(times)
    if not mean:
        return "nothing: compute hides all communication"
    text = f"{time_text(mean)}{per_step(document)} of communication without compute"
    ends = f", {time_text(min(times))} to {time_text(max(times))} by rank"
    spread = ends if max(times) > APART * min(times) else ""
    waited = fmean(row.exposed_wait_ns or 0 for row in document.ranks)
    wait = f"; {time_text(waited)} of it waiting for other ranks" if waited >= HARDLY * mean else ""
    return f"{text}{spread}{wait}"


def _pipeline(document: JobDocument) -> str:
    """The stage that waits longest for the others."""
    if not document.bubbles:
        return ""
    worst = max(document.bubbles, key=lambda row: row.bubble_ns)
    stages = plural(len(document.bubbles), "stage")
    wait = f"{time_text(worst.bubble_ns)} of {a_step(document)}"
    idle = f"stage {worst.stage} waits {wait} for the others"
    long = f"; {text}" if (text := longest_stage(document)) else ""
    return f"{stages}; {idle} ({percent_text(worst.share)}){long}"


def _network(document: JobDocument) -> str:
    """The collective that takes most time, and what is slower than its equals."""
    if not document.network:
        return ""
    row = next((row for row in document.network if not row.at_least), document.network[0])
    slow = slowest_link(document)
    below = f"; {slow.kind} {slow.what} is slow: {rates(slow)}" if slow else ""
    over = f" over {plural(row.group_size, 'rank')}" if row.group_size else ""
    what = f"{row.collective}, {bytes_text(row.message_bytes)}{over}"
    rate = f"{'at least ' if row.at_least else ''}{rate_text(row.bus_gbps)} on the bus"
    return f"{what}: {rate} (median of {count_text(row.count)}){below}"


def _same(document: JobDocument) -> str:
    """Whether the traces are one whole job, and how well their clocks are known."""
    odd = [row.text for row in document.same if row.severity in GRAVE]
    odd += [row.text for row in document.same if row.severity == "notice"]
    odd += [note.text for note in document.notes if note.severity != "info"]
    if not odd and document.job.ranks < 2:
        return ""
    more = f"; {len(odd) - ODDITIES} more (--same)" if len(odd) > ODDITIES else ""
    kernels = " with the same kernels and shapes" if document.job.kernels else ""
    answer = "; ".join(odd[:ODDITIES]) + more if odd else f"yes: ranks of one run{kernels}"
    many = f"{count_text(document.by_order)} of {plural(document.matched, 'collective')}"
    order = f"; {many} matched by order: they have no numbers" if document.by_order else ""
    fitted_clocks = sum(row.clock.fitted for row in document.ranks)
    clocks, apart = "", len(document.ranks) - fitted_clocks
    if fitted_clocks and document.matched:
        clocks = f"; clocks within {time_text(clock_error(document))}"
        clocks += f", those of {plural(apart, 'rank')} not fitted" if apart else ""
    return f"{answer}{order}{clocks}"


def _not_read(document: JobDocument) -> str:
    if not document.left_out:
        return ""
    first, many = document.left_out[0], len(document.left_out)
    name = first.path.replace("\\", "/").rsplit("/", 1)[-1]
    more = f" and {many - 1:,} more" if many > 1 else ""
    return f"{plural(many, 'file')}: {name} ({first.code}){more}"


def _latest(document: JobDocument) -> list[JobRank]:
    return sorted(document.ranks, key=lambda row: (-(row.delays_ns or 0), row.rank))


def _why_slow(row: JobRank) -> str | None:
    ratio = f" {ratio_text(row.kernel_ratio)}" if row.slow == "gpu" and row.kernel_ratio else ""
    return f"{row.slow}{ratio}" or None


def _causes(row: JobRank) -> str | None:
    shares = sorted(row.causes.items(), key=lambda item: -item[1])
    words = [f"{_words(name)} {share:.0%}" for name, share in shares if name in CAUSES]
    return ", ".join(words) or _words(row.cause) or None


def _words(name: str) -> str:
    """`other comms`: a cause in a table."""
    return name.replace("_", " ")


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


_CAUSE = Column("cause", lambda row: _words(row.cause) or None, WORDS)
_RANKS = (
    Column("rank"), Column("host", unit=WORDS), Column("step", "wall_ns"),
    Column("compute", "compute_ns"), Column("exposed", "exposed_ns"), Column("waits", "wait_ns"),
    Column("last", "times_last"), Column("others wait", "delays_ns"), _CAUSE,
)  # fmt: skip
_LATE = (
    Column("rank"), Column("host", unit=WORDS), Column("waits", "wait_ns"),
    Column("last", "times_last"), Column("of", "collectives"), Column("others wait", "delays_ns"),
    Column("in all", "made_others_wait_ns"), Column("slow", _why_slow, WORDS),
    Column("cause", _causes, WORDS),
)  # fmt: skip
_HOSTS = (
    Column("host", unit=WORDS), Column("ranks"), Column("last", "times_last"),
    Column("others wait", "delays_ns"), Column("in all", "made_others_wait_ns"),
    Column("slow", lambda row: "yes" if row.slow else "no", WORDS), _CAUSE,
)  # fmt: skip


def stragglers(document: JobDocument, top: int) -> list[Table]:
    """Every rank by how much it delays the others, and every host."""
    how = (
        "Per step. `others wait` counts from the median arrival on, `in all` sums over the ranks "
        "that wait. A rank counts as last where it is late beyond the clocks' error."
    )
    name = "Ranks, by how long the others wait for them"
    hosts = sorted(document.hosts, key=lambda row: -row.delays_ns)
    ranks = listed(name, _LATE, _latest(document), top, more=how)
    return [ranks, listed("Hosts", _HOSTS, hosts, top)]


_TIMES = (
    Column("rank", unit=WORDS), Column("step", "wall_ns"), Column("compute", "compute_ns"),
    Column("both", "both_ns"), Column("exposed", "exposed_ns"),
    Column("share", lambda row: _share(row.exposed_ns, row.wall_ns), "share"),
    Column("copies", "copy_ns"), Column("idle", "idle_ns"), Column("data", "data_ns"),
)  # fmt: skip


def _mean(name: str, of: str) -> Column:
    def mean(cells: list[JobCell]) -> float | None:
        known = [getattr(cell, of) for cell in cells if getattr(cell, of) is not None]
        return fmean(known) if known else None

    return Column(name, mean, "ns")


def _longest(cells: list[JobCell]) -> JobCell:
    return max(cells, key=lambda cell: cell.wall_ns)


_STEPS = (  # a row is the cells of a step
    Column("step", lambda cells: cells[0].step if cells[0].step >= 0 else None, WORDS),
    Column("ranks", len), Column("longest", lambda cells: _longest(cells).wall_ns, "ns"),
    Column("rank", lambda cells: _longest(cells).rank, "number"),
    Column("median", lambda cells: median(cell.wall_ns for cell in cells), "ns"),
    _mean("compute", "compute_ns"), _mean("exposed", "exposed_ns"), _mean("idle", "idle_ns"),
    _mean("waits", "wait_ns"),
)  # fmt: skip
_OVERLAP = (
    Column("group", unit=WORDS), Column("collective", unit=WORDS),
    Column("n", "count"), Column("time", "total_ns"), Column("exposed", "exposed_ns"),
    Column("hidden", lambda row: _share(row.total_ns - row.exposed_ns, row.total_ns), "share"),
    Column("waits", "wait_ns"),
)  # fmt: skip
_BUBBLES = (
    Column("stage"), Column("ranks", lambda row: ranks_text(row.ranks), WORDS),
    Column("bubble", "bubble_ns"), Column("share"),
)  # fmt: skip


def exposed(document: JobDocument, top: int) -> list[Table]:
    """What a step's time is made of, by rank and by step; overlap by group and kind; bubbles."""
    ranks = sorted(document.ranks, key=lambda row: -(row.exposed_ns or 0))
    cells = sorted(document.cells, key=lambda cell: cell.step)
    by_step = [[*of_step] for _, of_step in groupby(cells, lambda cell: cell.step)]
    saves = document.perfect_overlap_ns
    best = f"Perfect overlap would save at most {time_text(saves)} per step." if saves else ""
    name = "Overlap by group and collective (per rank and step)"
    return [
        listed("Ranks, by exposed communication (means per step)", _TIMES, ranks, top),
        listed("Steps (means over the ranks)", _STEPS, by_step, top),
        Table(name, _OVERLAP, document.overlap[:top], best),
        Table("Pipeline bubbles (per step)", _BUBBLES, document.bubbles),
    ]


_SEGMENTS = (
    Column("at", "start_ns"), Column("rank"), Column("kind", unit=WORDS),
    Column("what", "name", WORDS), Column("time", lambda row: row.end_ns - row.start_ns, "ns"),
)  # fmt: skip
_WHAT_IFS = (
    Column("if", lambda row: f"{row.what} {CHANGES[row.kind]}", WORDS),
    Column("saves", "saves_ns"),
)  # fmt: skip


def path(document: JobDocument, top: int) -> list[Table]:
    """The critical path through one step, part by part, and what a change would save."""
    critical = document.path
    if critical is None:
        return []
    kinds = ", ".join(f"{kind} {time_text(ns)}" for kind, ns in critical.kinds.items())
    text = f"{time_text(critical.length_ns)} over {ranks_text(critical.ranks)}: {kinds}."
    apart = document.job.ranks - (critical.compared or document.job.ranks)
    if apart:
        text += f" Without {plural(apart, 'rank')} whose clocks do not compare with these."
    name = "What a replay of the step saves (an estimate)"
    return [
        paragraphs(f"Critical path through {step_name(critical.step)}", text),
        listed("", _SEGMENTS, critical.segments, top),
        listed(name, _WHAT_IFS, critical.what_ifs, top),
    ]


_RATES = (
    Column("collective", unit=WORDS), Column("dtype", unit=WORDS),
    Column("message", "message_bytes"), Column("ranks", "group_size"),
    Column("group", unit=WORDS), Column("n", "count"), Column("transfer", "transfer_ns"),
    Column("alg", "algorithm_gbps"), Column("bus", "bus_gbps"), Column("best", "best_bus_gbps"),
)  # fmt: skip
_OUTLIERS = (
    Column("what", lambda row: f"{row.kind} {row.what}", WORDS),
    Column("collective", unit=WORDS), Column("message", "message_bytes"),
    Column("bus", "bus_gbps"), Column("usual", "usual_gbps"), Column("n", "count"),
)  # fmt: skip


def network(document: JobDocument, top: int) -> list[Table]:
    """Bandwidths of the transfers alone, and what is slower than its equals."""
    how = "Waits for late ranks are taken out. Bandwidths are those of nccl-tests, in GB/s."
    return [
        listed("Network", _RATES, document.network, top, more=how),
        listed("Slower than their equals", _OUTLIERS, document.outliers, top),
    ]


def _drift(row: JobRank) -> str | None:
    return None if row.clock.drift_ppm is None else f"{row.clock.drift_ppm:.3f} ppm"


_CLOCKS = (
    Column("rank"), Column("host", unit=WORDS),
    Column("offset", lambda row: row.clock.offset_ns if row.clock.fitted else "not fitted", "ns"),
    Column("drift", _drift, TEXT), Column("error", lambda row: row.clock.error_ns, "ns"),
    Column("collectives", lambda row: row.clock.collectives),
)  # fmt: skip


def same(document: JobDocument, top: int) -> list[Table]:
    """Whether the traces are one job, the clocks, the files left out, the notes."""
    matched = f"{count_text(document.matched)} collectives were matched across ranks"
    how = f", {count_text(document.by_order)} of them by order" if document.by_order else ""
    odd = [
        Line(
            BULLET,
            f"{row.severity}: {row.text} [{row.code}]",
            ranks_text(row.ranks) if row.ranks else "",
        )
        for row in document.same
    ]
    left_out = [f"{file.path}: {file.text} [{file.code}]" for file in document.left_out]
    notes = [f"{note.severity}: {note.shown}" for note in document.notes]
    return [
        Table("Are they the same job", lines=[Line("", f"{matched}{how}."), *odd]),
        listed("Clocks, against the lowest rank", _CLOCKS, document.ranks, top),
        bulleted("Not read", left_out),
        bulleted("Notes", notes),
    ]


PARTS = {
    "stragglers": stragglers, "exposed": exposed, "path": path, "network": network, "same": same,
}  # fmt: skip

# the rows of a rank; of two kinds in one column, the later one in this order is drawn
LANES = {"gpu": ("copy", "compute"), "comms": ("comms", "transfer", "wait"), "host": ("data",)}
SIGNS = {"compute": "█", "copy": "▒", "transfer": "=", "comms": "-", "wait": "·", "data": "d"}
_WORDS = {
    "compute": "compute",
    "copy": "copies",
    "transfer": "transfer",
    "wait": "waits for the last rank",
    "comms": "communication",
    "data": "data loader",
}


def job_timeline(lanes: JobLanes, step: int | None, width: int = WIDTH) -> Table:
    """One step of the chosen ranks; without a number the longest one."""
    if lanes.spans.is_empty() or lanes.steps.is_empty():
        return paragraphs("Timeline", "the traces of these ranks record no GPU work")
    every: list[tuple[int, int, int]] = list(lanes.steps.iter_rows())
    chosen = [row for row in every if row[0] == step] or every
    number, start, end = max(chosen, key=lambda row: row[2] - row[1])
    shown = lanes.spans.filter(pl.col("start_ns") < end, pl.col("end_ns") > start)
    drawn = {kind for kind in SIGNS if kind in shown["kind"]}
    names = [lanes.name(rank, HOST) for rank in lanes.ranks]
    room = max(width - 4 - max(map(len, names)) - 7, 20)
    lines, label = list[str](), max(map(len, names))
    for rank, name in zip(lanes.ranks, names, strict=True):
        head = name
        for row, text in _drawn_rows(shown.filter(rank=rank), start, end, room):
            lines.append(f"{head:{label}} {row:5} {text}".rstrip())
            head = ""
    texts = [time_text((end - start) * part // 4) if part else "0" for part in range(4)]
    cells = "".join(f"|{text}".ljust(room // 4) for text in texts)
    axis = cells.ljust(room)[: room - 1] + "|"
    lines.append(f"{'':{label}} {'':5} {axis}")
    keys = ", ".join(f"{SIGNS[kind]} {text}" for kind, text in _WORDS.items() if kind in drawn)
    error = "not aligned: a clock could not be fitted"
    if lanes.error_ns is not None:
        error = f"clocks aligned within {time_text(lanes.error_ns)}"
    title = f"Timeline of {step_name(number)}: {time_text(end - start)}, {error}"
    return Table(title, more=keys, code="\n".join(lines))


def _drawn_rows(spans: pl.DataFrame, start: int, end: int, room: int) -> list[tuple[str, str]]:
    found, scale = [], room / max(end - start, 1)
    for row, kinds in LANES.items():
        cells = np.full(room, " ")
        for kind in kinds:
            mine = spans.filter(kind=kind)
            starts, ends = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
            inside = np.clip((starts - start) * scale, 0, room).tolist()
            until = np.clip((ends - start) * scale, 0, room).tolist()
            cut = ((starts < start) | (ends > end)).tolist()
            # the columns of which a kind covers at least half, and of each span at least one
            for first, last, is_cut in zip(inside, until, cut, strict=True):
                low = min(round(first), room - 1)
                if last - first >= 0.5 or not is_cut:
                    cells[low : max(round(last), low + 1)] = SIGNS[kind]
        if (cells != " ").any():
            found.append((row, "".join(cells)))
    return found or [("gpu", "")]
