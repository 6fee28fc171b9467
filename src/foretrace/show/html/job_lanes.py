"""Chosen ranks of a job as the page draws them: one lane per rank, arrows from the last arrival."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from foretrace.analyze.jobs.lanes import KINDS, JobLanes
from foretrace.base.units import count_text, time_text
from foretrace.model.intervals import Ints
from foretrace.schema.documents.job import JobDocument
from foretrace.schema.jobs import WITHOUT_STEPS
from foretrace.show.html.page import pack
from foretrace.show.html.timeline import Lane, Outline, StepExtent, free_rows
from foretrace.show.render.terminal import plain

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
    spans = _kept(lanes.spans)
    origin = min(int(spans["start_ns"].min()), int(lanes.steps["start_ns"].min() or 0))  # type: ignore[arg-type]
    names = spans["name"].fill_null("").unique().sort().to_list()
    spans = spans.with_columns(
        pl.col("start_ns", "end_ns") - origin,
        pl.col("name")
        .fill_null("")
        .replace_strict(names, range(len(names)), return_dtype=pl.Int64),
    )
    parts = [_rows(spans.filter(rank=rank)) for rank in lanes.ranks]
    rows = np.concatenate(parts)
    lane = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    spans = spans.with_columns(pl.Series("row", rows), pl.Series("lane", lane))
    spans = spans.sort("lane", "row", "start_ns", maintain_order=True).with_row_index("event")
    steps = [
        _extent(step, start - origin, end - origin) for step, start, end in lanes.steps.iter_rows()
    ]
    outline = Outline(
        [
            Lane(_label(lanes, rank), True, int(part.max(initial=0)) + 1)
            for rank, part in zip(lanes.ranks, parts, strict=True)
        ],
        int(spans["end_ns"].max()),  # type: ignore[arg-type]
        steps,
        _opens_at(lanes, document),
        [],
        list(KINDS),
        events=pack(_columns(spans), frozenset({"event", "start"})),
        left_out=lanes.spans.height - spans.height,
    )
    return LanePage([plain(name) for name in names], list(KINDS), _note(lanes), outline)


def _kept(spans: pl.DataFrame) -> pl.DataFrame:
    """The longest spans, in their order."""
    if spans.height <= MOST_SPANS:
        return spans
    length = pl.col("end_ns") - pl.col("start_ns")
    kept = spans.with_row_index("at").sort(length, descending=True, maintain_order=True)
    return kept.head(MOST_SPANS).sort("at").drop("at")


def _rows(spans: pl.DataFrame) -> Ints:
    """The row of each span of a rank: its group's, and below it where it overlaps another."""
    group = spans["kind"].replace_strict(_GROUP_OF, return_dtype=pl.Int64).to_numpy()
    start, end = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    rows, below = np.zeros(spans.height, np.int64), 0
    for number in np.unique(group).tolist():
        mine = np.flatnonzero(group == number)
        rows[mine] = below + free_rows(start[mine], end[mine])
        below = int(rows[mine].max()) + 1
    return rows


def _columns(spans: pl.DataFrame) -> dict[str, Ints]:
    numbers = {kind: at for at, kind in enumerate(KINDS)}
    return {
        "event": spans["event"].to_numpy(),
        "start": spans["start_ns"].to_numpy(),
        "length": (spans["end_ns"] - spans["start_ns"]).to_numpy(),
        "lane": spans["lane"].to_numpy(),
        "row": spans["row"].to_numpy(),
        "name": spans["name"].to_numpy(),
        "kind": spans["kind"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy(),
        "launch": last_arrivals(spans).to_numpy(),
    }


def last_arrivals(spans: pl.DataFrame) -> pl.Series:
    """For each span of a collective the event of the rank that came last to it; else -1."""
    last = spans.filter(pl.col("last"), pl.col("kind") == "transfer")
    told = last.select("meeting", pl.col("event").cast(pl.Int64).alias("from")).unique("meeting")
    joined = spans.join(told, on="meeting", how="left", maintain_order="left")
    other = pl.col("from").is_not_null() & (pl.col("from") != pl.col("event"))
    return joined.select(pl.when(other).then("from").otherwise(-1).alias("from"))["from"]


def _extent(step: int, start: int, end: int) -> StepExtent:
    name = "the recording" if step == WITHOUT_STEPS else f"step {step}"
    return StepExtent(name, start, end, end)


def _opens_at(lanes: JobLanes, document: JobDocument) -> int | None:
    if lanes.steps.is_empty():
        return None
    numbers = lanes.steps["step"].to_list()
    if document.path is not None and document.path.step in numbers:
        return numbers.index(document.path.step)
    return (lanes.steps["end_ns"] - lanes.steps["start_ns"]).arg_max()


def _label(lanes: JobLanes, rank: int) -> str:
    host = lanes.hosts.get(rank, "")
    return plain(f"rank {rank}" + (f" ({host})" if host else ""))


def _note(lanes: JobLanes) -> str:
    if lanes.error_ns is None:
        return "A clock of these ranks could not be fitted: times of two ranks are not comparable."
    many = count_text(len(lanes.ranks))
    return f"{many} ranks on one clock, aligned within {time_text(lanes.error_ns)}."
