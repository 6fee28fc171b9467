"""The page of a job: the terminal's lines, a heat map of ranks by steps, chosen ranks as lanes.

The page is one file with every table, and needs no network. The timeline has one lane for each
rank, with arrows from the last arrival of each collective.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.base.arrays import distinct
from foretrace.base.tables import WORDS, Column, Table
from foretrace.base.terminal import plain
from foretrace.base.units import count_text, time_text
from foretrace.check.documents import CheckDocument
from foretrace.jobs.documents import JobDocument
from foretrace.jobs.lanes import KINDS, JobLanes
from foretrace.jobs.lines import PARTS, sections
from foretrace.jobs.whole_job import step_name
from foretrace.pages.page import Packed, pack, page
from foretrace.pages.page_tables import TableData, predictions_table, shown
from foretrace.pages.timeline import Lane, Outline, StepExtent, free_rows
from foretrace.trace.intervals import Ints

MOST_SPANS = 60_000  # near 0.5 MB; the longest are kept
# the rows of a rank, from above: what overlaps in one of these takes more rows
_GROUPS = (("compute",), ("wait", "transfer", "comms"), ("copy",), ("data", "sync"))
_GROUP_OF = {kind: at for at, kinds in enumerate(_GROUPS) for kind in kinds}


class LanePage(Struct, frozen=True):
    """What the script reads: names and kinds that columns number, and a line about the clocks."""

    names: list[str]
    kinds: list[str]
    note: str
    timeline: Outline


def lane_page(lanes: JobLanes, document: JobDocument) -> LanePage:
    """The timeline opens at the step of the critical path, else at the longest."""
    spans = lanes.spans
    if spans.height > MOST_SPANS:
        length = pl.col("end_ns") - pl.col("start_ns")
        longest = spans.with_row_index("at").sort(length, descending=True, maintain_order=True)
        spans = longest.head(MOST_SPANS).sort("at").drop("at")
    origin = min(int(spans["start_ns"].min()), int(lanes.steps["start_ns"].min() or 0))  # type: ignore[arg-type]
    names = spans["name"].fill_null("").unique().sort().to_list()
    spans = spans.with_columns(
        pl.col("start_ns", "end_ns") - origin,
        pl.col("name")
        .fill_null("")
        .replace_strict(names, range(len(names)), return_dtype=pl.Int64),
    )
    numbers = {kind: at for at, kind in enumerate(KINDS)}
    parts = [_rows(spans.filter(rank=rank)) for rank in lanes.ranks]
    rows = np.concatenate(parts)
    lane = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    spans = spans.with_columns(pl.Series("row", rows), pl.Series("lane", lane))
    spans = spans.sort("lane", "row", "start_ns", maintain_order=True).with_row_index("event")
    columns = {
        "event": spans["event"],
        "start": spans["start_ns"],
        "length": spans["end_ns"] - spans["start_ns"],
        "lane": spans["lane"],
        "row": spans["row"],
        "name": spans["name"],
        "kind": spans["kind"].replace_strict(numbers, return_dtype=pl.Int64),
        "launch": last_arrivals(spans),
    }
    made = {name: column.to_numpy() for name, column in columns.items()}
    numbers_of_steps = lanes.steps["step"].to_list()
    opens_at = (lanes.steps["end_ns"] - lanes.steps["start_ns"]).arg_max()
    if document.path is not None and document.path.step in numbers_of_steps:
        opens_at = numbers_of_steps.index(document.path.step)
    steps = [
        StepExtent(step_name(step), start - origin, end - origin, end - origin)
        for step, start, end in lanes.steps.iter_rows()
    ]
    outline = Outline(
        [
            Lane(plain(lanes.name(rank)), True, int(part.max(initial=0)) + 1)
            for rank, part in zip(lanes.ranks, parts, strict=True)
        ],
        int(spans["end_ns"].max()),  # type: ignore[arg-type]
        steps,
        opens_at,
        [],
        list(KINDS),
        events=pack(made, frozenset({"event", "start"})),
        left_out=lanes.spans.height - spans.height,
    )
    note = "A clock of these ranks could not be fitted: times of two ranks are not comparable."
    if lanes.error_ns is not None:
        many = count_text(len(lanes.ranks))
        note = f"{many} ranks on one clock, aligned within {time_text(lanes.error_ns)}."
    return LanePage([plain(name) for name in names], list(KINDS), note, outline)


def _rows(spans: pl.DataFrame) -> Ints:
    """The row of each span of a rank: its group's, and below it where it overlaps another."""
    group = spans["kind"].replace_strict(_GROUP_OF, return_dtype=pl.Int64).to_numpy()
    start, end = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    rows, below = np.zeros(spans.height, np.int64), 0
    for number in distinct(group).tolist():
        mine = np.flatnonzero(group == number)
        rows[mine] = below + free_rows(start[mine], end[mine])
        below = int(rows[mine].max()) + 1
    return rows


def last_arrivals(spans: pl.DataFrame) -> pl.Series:
    """For each span of a collective the event of the rank that came last to it; else -1."""
    last = spans.filter(pl.col("last"), pl.col("kind") == "transfer")
    event = pl.col("event").cast(pl.Int64).alias("from")
    arrived = last.select("collective_id", event).unique("collective_id")
    joined = spans.join(arrived, on="collective_id", how="left", maintain_order="left")
    other = pl.col("from").is_not_null() & (pl.col("from") != pl.col("event"))
    return joined.select(pl.when(other).then("from").otherwise(-1).alias("from"))["from"]


TOP = 1_024  # rows of a table: every rank of a large job, and a page below 4 MB
MEASURES = {  # by the times that it shows; the first that is known opens
    "delays_ns": ("delays", "makes others wait", "Time that the others wait for a rank."),
    "wall_ns": ("time", "time", "The time of each step."),
    "wait_ns": ("wait", "wait", "Time in collectives until the last rank came."),
    "exposed_ns": ("exposed", "exposed", "Communication without compute under it."),
}
WAITS = ("delays_ns", "wait_ns")


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

    head: TableData
    heat: HeatData | None
    lanes: LanePage | None
    tables: list[TableData]
    kind: str = "job"


def job_html(
    document: JobDocument, lanes: JobLanes | None, predictions: CheckDocument | None = None
) -> str:
    """The page as HTML; `predictions` are marked ones to show."""
    top, *rest = sections(document, PARTS, TOP)
    drawn = None if lanes is None or lanes.spans.is_empty() else lane_page(lanes, document)
    marked = [] if predictions is None else [predictions_table(predictions)]
    tables = [*marked, *(shown(_named(each)) for each in rest)]
    return page(plain(top.title), JobPage(shown(top), _heat(document), drawn, tables))


def _named(table: Table) -> Table:
    """Rank and host in one column, which names the row wherever the others have no room."""
    if [column.name for column in table.columns[:2]] != ["rank", "host"]:
        return table
    rank = Column(
        "rank", lambda row: f"{row.rank} ({row.host})" if row.host else str(row.rank), WORDS
    )
    return replace(table, columns=[rank, *table.columns[2:]])


def _heat(document: JobDocument) -> HeatData | None:
    cells = document.cells
    if not cells:
        return None
    ranks, steps = sorted({cell.rank for cell in cells}), sorted({cell.step for cell in cells})
    row = {rank: at for at, rank in enumerate(ranks)}
    column = {step: at for at, step in enumerate(steps)}
    place = [row[cell.rank] * len(steps) + column[cell.step] for cell in cells]
    columns = {}
    for field, (name, *_) in MEASURES.items():
        values = np.full(len(ranks) * len(steps), -1, np.int64)
        found = (getattr(cell, field) for cell in cells)
        values[place] = [-1 if value is None else value for value in found]
        columns[name] = values
    lost = WAITS if document.verdict.bound == "unknown" else ()  # they are 0 where no clock fits
    told = [each for field, each in MEASURES.items() if field not in lost]
    known = [HeatMeasure(*each) for each in told if (columns[each[0]] >= 0).any()]
    hosts = {each.rank: each.host for each in document.ranks}
    cut = [at for at, cell in zip(place, cells, strict=True) if not cell.whole]
    named = [plain(hosts.get(rank, "")) for rank in ranks]
    return HeatData(ranks, named, steps, cut, known, pack(columns))
