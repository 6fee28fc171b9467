"""The page of a job: what the terminal says, a heat map of ranks by steps, chosen ranks on one
timeline, and every table; one file that needs no network.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from foretrace.analyze.jobs.lanes import JobLanes
from foretrace.schema.documents.check import CheckDocument
from foretrace.schema.documents.job import JobCell, JobDocument
from foretrace.show.html.job_lanes import LanePage, lane_page
from foretrace.show.html.page import Packed, pack, page, safe
from foretrace.show.render.job_page import PARTS, sections
from foretrace.show.render.terminal import plain

TOP = 1_024  # rows of a table: every rank of a large job, and a page below 4 MB
MEASURES = (
    ("time", "time", "The time of each step."),
    ("wait", "wait", "Time in collectives until the last rank came."),
    ("exposed", "exposed", "Communication without compute under it."),
)


class HeatMeasure(Struct, frozen=True):
    """What the heat map can show."""

    name: str
    title: str
    text: str


class HeatData(Struct, frozen=True):
    """`values` has a column per measure, ranks by steps, -1 where nothing was recorded.

    `cut` are the places of steps that the recording cut.
    """

    ranks: list[int]
    hosts: list[str]
    steps: list[int]
    cut: list[int]
    measures: list[HeatMeasure]
    values: Packed


class JobPage(Struct, frozen=True):
    """What the script of the page reads."""

    head: object
    heat: HeatData | None
    lanes: LanePage | None
    sections: list[object]
    guesses: object | None = None


def job_html(
    document: JobDocument, lanes: JobLanes | None, guesses: CheckDocument | None = None
) -> str:
    """The page as HTML; `guesses` are marked predictions to show."""
    top, *rest = sections(document, PARTS, TOP)
    drawn = None if lanes is None or lanes.spans.is_empty() else lane_page(lanes, document)
    data = JobPage(safe(top), _heat(document), drawn, [safe(each) for each in rest], guesses)
    return page(plain(top.title), data, main="job")


def _heat(document: JobDocument) -> HeatData | None:
    cells = document.cells
    if not cells:
        return None
    ranks, steps = sorted({cell.rank for cell in cells}), sorted({cell.step for cell in cells})
    row = {rank: at for at, rank in enumerate(ranks)}
    column = {step: at for at, step in enumerate(steps)}
    place = [row[cell.rank] * len(steps) + column[cell.step] for cell in cells]
    columns = {}
    for name, *_ in MEASURES:
        values = np.full(len(ranks) * len(steps), -1, np.int64)
        values[place] = [_value(cell, name) for cell in cells]
        columns[name] = values
    known = [HeatMeasure(*each) for each in MEASURES if (columns[each[0]] >= 0).any()]
    hosts = {each.rank: each.host for each in document.ranks}
    cut = [at for at, cell in zip(place, cells, strict=True) if not cell.whole]
    named = [plain(hosts.get(rank, "")) for rank in ranks]
    return HeatData(ranks, named, steps, cut, known, pack(columns))


def _value(cell: JobCell, name: str) -> int:
    value = {"time": cell.wall_ns, "wait": cell.wait_ns, "exposed": cell.exposed_ns}[name]
    return -1 if value is None else value
