"""Chosen ranks of a job as lanes of text: compute, communication and waits, on one clock."""

from __future__ import annotations

import numpy as np
import polars as pl

from foretrace.analyze.jobs.lanes import JobLanes
from foretrace.base.units import time_text
from foretrace.model.intervals import Ints
from foretrace.schema.jobs import WITHOUT_STEPS
from foretrace.show.render.terminal import WIDTH, Section

# the rows of a rank; of two kinds in one column, the later one in this order is drawn
ROWS = {"gpu": ("copy", "compute"), "comms": ("comms", "transfer", "wait"), "host": ("data",)}
SIGNS = {"compute": "█", "copy": "▒", "transfer": "=", "comms": "-", "wait": "·", "data": "d"}
_WORDS = {
    "compute": "compute",
    "copy": "copies",
    "transfer": "transfer",
    "wait": "waits for the last rank",
    "comms": "communication",
    "data": "data loader",
}


def job_timeline(lanes: JobLanes, step: int | None, width: int = WIDTH) -> Section:
    """One step of the chosen ranks; without a number the longest one."""
    if lanes.spans.is_empty() or lanes.steps.is_empty():
        return Section("Timeline", ["the traces of these ranks record no GPU work"])
    number, start, end = _step(lanes, step)
    shown = lanes.spans.filter(pl.col("start_ns") < end, pl.col("end_ns") > start)
    drawn = {kind for kind in SIGNS if kind in shown["kind"]}
    names = [_name(lanes, rank) for rank in lanes.ranks]
    room = max(width - 4 - max(map(len, names)) - 7, 20)
    lines, label = list[str](), max(map(len, names))
    for rank, name in zip(lanes.ranks, names, strict=True):
        rows = _rows(shown.filter(rank=rank), start, end, room)
        heads = [name] + [""] * (len(rows) - 1)
        lines += [
            f"{head:{label}} {row:5} {text}".rstrip()
            for head, (row, text) in zip(heads, rows, strict=True)
        ]
    lines.append(f"{'':{label}} {'':5} {_axis(end - start, room)}")
    which = "the recording" if number == WITHOUT_STEPS else f"step {number}"
    keys = ", ".join(f"{SIGNS[kind]} {text}" for kind, text in _WORDS.items() if kind in drawn)
    error = "not aligned: a clock could not be fitted"
    if lanes.error_ns is not None:
        error = f"clocks aligned within {time_text(lanes.error_ns)}"
    title = f"Timeline of {which}: {time_text(end - start)}, {error}"
    return Section(title, after=keys, code="\n".join(lines))


def _step(lanes: JobLanes, step: int | None) -> tuple[int, int, int]:
    rows: list[tuple[int, int, int]] = list(lanes.steps.iter_rows())
    wanted = [row for row in rows if row[0] == step] or rows
    return max(wanted, key=lambda row: row[2] - row[1])


def _name(lanes: JobLanes, rank: int) -> str:
    host = lanes.hosts.get(rank, "")
    return f"rank {rank}" + (f" ({host[:16]})" if host else "")


def _rows(spans: pl.DataFrame, start: int, end: int, room: int) -> list[tuple[str, str]]:
    """The rows of one rank that have anything in them."""
    found = []
    for row, kinds in ROWS.items():
        cells = np.full(room, " ")
        for kind in kinds:
            mine = spans.filter(kind=kind)
            _fill(cells, mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy(), (start, end), kind)
        if (cells != " ").any():
            found.append((row, "".join(cells)))
    return found or [("gpu", "")]


def _fill(
    cells: np.ndarray[tuple[int], np.dtype[np.str_]],
    starts: Ints,
    ends: Ints,
    window: tuple[int, int],
    kind: str,
) -> None:
    """Mark the columns of which a kind covers at least half, and of each span at least one."""
    start, end = window
    scale = len(cells) / max(end - start, 1)
    inside = np.clip((starts - start) * scale, 0, len(cells))
    until = np.clip((ends - start) * scale, 0, len(cells))
    cut = (starts < start) | (ends > end)
    for first, last, is_cut in zip(inside.tolist(), until.tolist(), cut.tolist(), strict=True):
        low = min(round(first), len(cells) - 1)
        if last - first >= 0.5 or not is_cut:
            cells[low : max(round(last), low + 1)] = SIGNS[kind]


def _axis(length: int, room: int) -> str:
    texts = [time_text(length * part // 4) if part else "0" for part in range(4)]
    cells = "".join(f"|{text}".ljust(room // 4) for text in texts)
    return cells.ljust(room)[: room - 1] + "|"
