"""The pages of `job`: the first screen, and the tables that its options show."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from statistics import fmean, median

from foretrace.analyze.jobs.rank_consistency import ranks_text
from foretrace.base.units import (
    DASH,
    bytes_text,
    count_text,
    percent_text,
    plural,
    ratio_text,
    time_text,
)
from foretrace.schema.documents.job import JobCell, JobDocument, JobRank, JobSegment
from foretrace.schema.ledger import GRAVE
from foretrace.show.overview.job_lines import CAUSES, cause_word
from foretrace.show.overview.job_verdict import lines, title
from foretrace.show.render.look_page import LINES, NAME, note_text
from foretrace.show.render.terminal import WIDTH, Section, drawn, shorten

CHANGES = {  # of a replay
    "rank": "at the median of its stage",
    "host": "with the bandwidth of its equals",
    "collective": "free",
}


def stragglers(document: JobDocument, top: int) -> list[Section]:
    """Every rank by how much it delays the others, and every host."""
    ordered = sorted(document.ranks, key=lambda row: (-(row.delays_ns or 0), row.rank))
    head = ["rank", "host", "waits", "last", "of", "others wait", "in all", "slow", "cause"]
    rows = [_late_cells(row) for row in ordered[:top]]
    more = _more(len(ordered), top)
    how = (
        "Per step. `others wait` counts from the median arrival on, `in all` sums over the ranks "
        f"that wait. A rank counts as last where it is late beyond the clocks' error. {more}"
    )
    hosts = sorted(document.hosts, key=lambda row: -row.delays_ns)
    host_rows = [
        [
            row.host,
            count_text(row.ranks),
            count_text(row.times_last),
            time_text(row.delays_ns),
            time_text(row.made_others_wait_ns),
            "yes" if row.slow else "no",
            cause_word(row.cause) or DASH,
        ]
        for row in hosts[:top]
    ]
    return [
        Section("Ranks, by how long the others wait for them",
                head=head, rows=rows, left=(1, 7, 8), after=how.rstrip()),
        Section("Hosts", head=["host", "ranks", "last", "others wait", "in all", "slow", "cause"],
                rows=host_rows, left=(0, 5, 6), after=_more(len(hosts), top)),
    ]  # fmt: skip


def _late_cells(row: JobRank) -> list[str]:
    counts = map(count_text, (row.times_last, row.collectives))
    times = map(time_text, (row.delays_ns, row.made_others_wait_ns))
    ratio = f" {ratio_text(row.kernel_ratio)}" if row.slow == "gpu" and row.kernel_ratio else ""
    shares = sorted(row.causes.items(), key=lambda item: -item[1])
    causes = ", ".join(
        f"{cause_word(name)} {share:.0%}" for name, share in shares if name in CAUSES
    )
    slow = f"{row.slow}{ratio}" or DASH
    who = [str(row.rank), row.host or DASH, time_text(row.wait_ns)]
    return [*who, *counts, *times, slow, causes or cause_word(row.cause) or DASH]


def exposed(document: JobDocument, top: int) -> list[Section]:
    """What a step's time is made of, by rank and by step; overlap by group and kind; bubbles."""
    ranks = sorted(document.ranks, key=lambda row: -(row.exposed_ns or 0))
    head = ["rank", "step", "compute", "both", "exposed", "share", "copies", "idle", "data"]
    rows = [_time_cells(row) for row in ranks[:top]]
    overlap = [
        [
            row.group or DASH,
            row.collective,
            count_text(row.count),
            time_text(row.total_ns),
            time_text(row.exposed_ns),
            percent_text(1 - row.exposed_ns / row.total_ns if row.total_ns else None),
            time_text(row.wait_ns),
        ]
        for row in document.overlap[:top]
    ]
    saves = document.perfect_overlap_ns
    best = f"Perfect overlap would save at most {time_text(saves)} per step." if saves else ""
    return [
        Section("Ranks, by exposed communication (means per step)", head=head, rows=rows,
                after=_more(len(ranks), top)),
        Section("Steps (means over the ranks)", head=_STEPS, rows=_step_rows(document)[:top],
                after=_more(len(document.job.steps), top)),
        Section("Overlap by group and collective (per rank and step)",
                head=["group", "collective", "n", "time", "exposed", "hidden", "waits"],
                rows=overlap, left=(0, 1), after=best),
        _bubbles(document),
    ]  # fmt: skip


def _time_cells(row: JobRank) -> list[str]:
    share = row.exposed_ns / row.wall_ns if row.exposed_ns is not None and row.wall_ns else None
    first = map(time_text, (row.wall_ns, row.compute_ns, row.both_ns, row.exposed_ns))
    rest = map(time_text, (row.copy_ns, row.idle_ns, row.data_ns))
    return [str(row.rank), *first, percent_text(share), *rest]


_STEPS = ["step", "ranks", "longest", "rank", "median", "compute", "exposed", "idle", "waits"]


def _step_rows(document: JobDocument) -> list[list[str]]:
    steps: dict[int, list[JobCell]] = {}
    for cell in document.cells:
        steps.setdefault(cell.step, []).append(cell)
    return [_step_cells(step, cells) for step, cells in sorted(steps.items())]


def _step_cells(step: int, cells: list[JobCell]) -> list[str]:
    longest = max(cells, key=lambda cell: cell.wall_ns)
    means = [fmean(values) for values in (
        [cell.compute_ns for cell in cells],
        [cell.exposed_ns for cell in cells],
        [cell.idle_ns for cell in cells],
    )]  # fmt: skip
    waits = [cell.wait_ns for cell in cells if cell.wait_ns is not None]
    times = map(time_text, [median(cell.wall_ns for cell in cells), *means])
    name = DASH if step < 0 else str(step)
    wait = time_text(fmean(waits) if waits else None)
    return [
        name,
        count_text(len(cells)),
        time_text(longest.wall_ns),
        str(longest.rank),
        *times,
        wait,
    ]


def _bubbles(document: JobDocument) -> Section:
    rows = [
        [
            str(row.stage),
            ranks_text(row.ranks),
            time_text(row.bubble_ns),
            percent_text(row.share),
        ]
        for row in document.bubbles
    ]
    head = ["stage", "ranks", "bubble", "share"]
    return Section("Pipeline bubbles (per step)", head=head, rows=rows, left=(1,))


def path(document: JobDocument, top: int) -> list[Section]:
    """The critical path through one step, part by part, and what a change would save."""
    found = document.path
    if found is None:
        return []
    kinds = ", ".join(f"{kind} {time_text(ns)}" for kind, ns in found.kinds.items())
    which = f"step {found.step}" if found.step >= 0 else "the recording"
    text = f"{time_text(found.length_ns)} over {ranks_text(found.ranks)}: {kinds}."
    apart = document.job.ranks - (found.compared or document.job.ranks)
    if apart:
        text += f" Without {plural(apart, 'rank')} whose clocks do not compare with these."
    changes = [
        [f"{each.what} {CHANGES[each.kind]}", time_text(each.saves_ns)]
        for each in found.what_ifs[:top]
    ]
    rows = [_segment_cells(each) for each in found.segments[:top]]
    return [
        Section(f"Critical path through {which}", [text]),
        Section("", head=["at", "rank", "kind", "what", "time"], rows=rows, left=(2, 3),
                after=_more(len(found.segments), top)),
        Section("What a replay of the step saves (an estimate)", head=["if", "saves"], rows=changes,
                after=_more(len(found.what_ifs), top)),
    ]  # fmt: skip


def _segment_cells(row: JobSegment) -> list[str]:
    at, time = time_text(row.start_ns), time_text(row.end_ns - row.start_ns)
    return [at, str(row.rank), row.kind, row.name or DASH, time]


def network(document: JobDocument, top: int) -> list[Section]:
    """Bandwidths of the transfers alone, and what is slower than its equals."""
    head = [
        "collective",
        "dtype",
        "message",
        "ranks",
        "group",
        "n",
        "transfer",
        "alg",
        "bus",
        "best",
    ]
    rows = []
    for row in document.network[:top]:
        rates = map(_rate, (row.algorithm_gbps, row.bus_gbps, row.best_bus_gbps))
        what = [
            row.collective,
            row.dtype,
            bytes_text(row.message_bytes),
            count_text(row.group_size),
        ]
        count = [row.group or DASH, count_text(row.count), time_text(row.transfer_ns)]
        rows.append([*what, *count, *rates])
    slow = [
        [
            f"{row.kind} {row.what}",
            row.collective,
            bytes_text(row.message_bytes),
            _rate(row.bus_gbps),
            _rate(row.usual_gbps),
            count_text(row.count),
        ]
        for row in document.outliers[:top]
    ]
    after = "Waits for late ranks are taken out. Bandwidths are those of nccl-tests, in GB/s."
    return [
        Section("Network", head=head, rows=rows, left=(0, 1, 4),
                after=f"{after} {_more(len(document.network), top)}".rstrip()),
        Section("Slower than their equals", rows=slow, left=(0, 1),
                head=["what", "collective", "message", "bus", "usual", "n"],
                after=_more(len(document.outliers), top)),
    ]  # fmt: skip


def _rate(gbps: float | None) -> str:
    return DASH if gbps is None else f"{gbps:.3g}"


def same(document: JobDocument, top: int) -> list[Section]:
    """Whether the traces are one job, the clocks, the files left out, the notes."""
    odd = [(f"{row.severity}: {row.text} [{row.code}]", _named(row.ranks)) for row in document.same]
    rows = [_clock_cells(row) for row in document.ranks[:top]]
    matched = f"{count_text(document.matched)} collectives were matched across ranks"
    how = f", {count_text(document.by_order)} of them by order" if document.by_order else ""
    left_out = [(f"{each.path}: {each.text} [{each.code}]", "") for each in document.left_out]
    notes = [
        (f"{note.severity}: {note.code} ({count_text(note.count)}): {note.text}", "")
        for note in document.notes
    ]
    return [
        Section("Are they the same job", [f"{matched}{how}."], bullets=odd),
        Section("Clocks, against the lowest rank", rows=rows, left=(1,),
                head=["rank", "host", "offset", "drift", "error", "collectives"],
                after=_more(len(document.ranks), top)),
        Section("Not read", bullets=left_out),
        Section("Notes", bullets=notes),
    ]  # fmt: skip


def _named(ranks: list[int]) -> str:
    return ranks_text(ranks) if ranks else ""


def _clock_cells(row: JobRank) -> list[str]:
    clock = row.clock
    drift = DASH if clock.drift_ppm is None else f"{clock.drift_ppm:.3f} ppm"
    offset = time_text(clock.offset_ns) if clock.fitted else "not fitted"
    error = time_text(clock.error_ns)
    return [str(row.rank), row.host or DASH, offset, drift, error, count_text(clock.collectives)]


def _more(count: int, shown: int) -> str:
    return f"… and {count_text(count - shown)} more (--top {count})" if count > shown else ""


PARTS = ("stragglers", "exposed", "path", "network", "same")
MOST = 8  # ranks of the first screen


def first_screen(document: JobDocument, width: int = WIDTH) -> list[Section]:
    """The verdict, what to do, the ranks that matter most, and how to see more: 25 lines."""
    top = head(document)
    options = " ".join(f"--{part}" for part in PARTS)
    more = Section("", [f"more: {options} --all --html FILE --perfetto FILE"])
    ordered = sorted(document.ranks, key=lambda row: (-(row.delays_ns or 0), row.rank))
    for most in range(min(MOST, len(ordered)), -1, -1):
        left = len(ordered) - most
        table = Section(
            top.title,
            labelled=top.labelled,
            bullets=top.bullets,
            head=HEAD,
            rows=[_cells(row) for row in ordered[:most]],
            left=(1, 8),
            after=f"and {plural(left, 'rank')} more" if left and most else "",
        )
        page = [table, more]
        if drawn(page, width=width).count("\n") < LINES:
            break
    return page


def sections(document: JobDocument, wanted: Collection[str], top: int) -> list[Section]:
    """The parts of the page that the options name, below the verdict."""
    parts = {
        "stragglers": stragglers,
        "exposed": exposed,
        "path": path,
        "network": network,
        "same": same,
    }
    chosen = [part for name in PARTS if name in wanted for part in parts[name](document, top)]
    return [
        head(document),
        *(part for part in chosen if part.rows or part.paragraphs or part.bullets),
    ]


def head(document: JobDocument) -> Section:
    """Every page begins with the job and its verdict."""
    name = shorten(os.path.basename(document.job.path.rstrip("/")) or document.job.path, NAME)
    labelled = [(line.label, line.text) for line in lines(document)]
    return Section(f"{name} · {title(document)}", labelled=labelled, bullets=_warnings(document))


def _warnings(document: JobDocument) -> Sequence[tuple[str, str]]:
    grave = [note for note in document.notes if note.severity in GRAVE]
    return [(f"! {note_text(note)}", "") for note in grave[:1]]


HEAD = ["rank", "host", "step", "compute", "exposed", "waits", "last", "others wait", "cause"]


def _cells(row: JobRank) -> list[str]:
    times = map(time_text, (row.wall_ns, row.compute_ns, row.exposed_ns, row.wait_ns))
    late = [count_text(row.times_last), time_text(row.delays_ns), cause_word(row.cause) or DASH]
    return [str(row.rank), row.host or DASH, *times, *late]
