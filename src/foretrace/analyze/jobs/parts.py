"""The tables of a part as Arrow streams with the types that `schema/jobs.py` names, and the answer
of a worker, which crosses processes and machines as MessagePack.
"""

from __future__ import annotations

from io import BytesIO

import polars as pl
from msgspec import Struct

from foretrace.schema.documents.sets import LeftOut
from foretrace.schema.jobs import RankPart
from foretrace.schema.tables import NONE


class FileAnswer(Struct, frozen=True):
    """What a worker says about a file: its part, or why there is none."""

    part: RankPart | None = None
    left_out: LeftOut | None = None


_INT, _TEXT, _FLAG, _NUMBER = pl.Int64, pl.String, pl.Boolean, pl.Float64


def _columns(text: str) -> dict[str, pl.DataType]:
    kinds = {"i": _INT, "s": _TEXT, "b": _FLAG, "f": _NUMBER}
    pairs = (each.partition(":")[::2] for each in text.split())
    return {name: kinds[kind or "i"]() for name, kind in pairs}


COLUMNS = {
    "steps": _columns(
        "step start_ns end_ns window_start_ns window_end_ns compute_ns comms_ns both_ns copy_ns "
        "idle_ns data_ns host_ns kernels collectives whole:b"
    ),
    "collectives": _columns(
        "id step group:s group_size seq comms_id:s order collective:s dtype:s in_bytes out_bytes "
        "message_bytes peer on_host:b stream launch_ns ready_ns start_ns end_ns since_ns "
        "compute_ns copy_ns comms_ns idle_ns data_ns alone_ns"
    ),
    "spans": _columns("step kind:s stream start_ns end_ns count name:s collective"),
    "host": _columns("step kind:s start_ns end_ns name:s"),
    "kernels": _columns("name:s short:s role:s signature:s count total_ns per_step:f"),
}


def typed(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """A table with exactly its columns; what a file does not state is null."""
    return pl.DataFrame([_typed(frame, column, kind) for column, kind in COLUMNS[name].items()])


def _typed(frame: pl.DataFrame, column: str, kind: pl.DataType) -> pl.Series:
    # one column at a time: a query over all of them takes longer than the columns
    if column not in frame.columns:
        return pl.Series(column, [None], kind).new_from_index(0, frame.height)
    found = frame[column]
    if found.dtype != kind:
        found = found.cast(kind)
    return found.replace(NONE, None) if kind == _INT and found.min() == NONE else found


def packed(name: str, frame: pl.DataFrame) -> bytes:
    """A table as an Arrow stream."""
    typed(name, frame).write_ipc_stream(file := BytesIO(), compression="zstd")
    return file.getvalue()


def unpacked(content: bytes) -> pl.DataFrame:
    """The table of a part."""
    return pl.read_ipc_stream(BytesIO(content))
