"""The pages of `job`: the first screen, and what its options show."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from foretrace.base.units import DASH, count_text, plural, time_text
from foretrace.schema.documents.job import JobDocument, JobRank
from foretrace.schema.ledger import GRAVE
from foretrace.show.overview.job import lines, title
from foretrace.show.overview.job_words import cause_word
from foretrace.show.render.job_tables import exposed, network, path, same, stragglers
from foretrace.show.render.look_page import LINES, NAME, note_text
from foretrace.show.render.terminal import WIDTH, Section, drawn, shorten

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
