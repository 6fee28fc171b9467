"""The tables of captures behind those of the trace that replays their graphs, under one numbering.

`join` says which launch of a capture each replayed kernel has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from foretrace.read.tables import Tables
from foretrace.trace.intervals import Ints

Text = TypeVar("Text", str, bytes)


def append_tables(own: Tables, captures: Sequence[Tables]) -> tuple[Tables, list[int]]:
    """All tables as one, and where the events of each capture begin. Those of `own` keep their
    numbers; an equal name or signature has one number, so that eager and replayed calls of an op
    are the same.
    """
    parts = [own, *captures]
    first = np.cumsum([0, *(part["events"].height for part in parts)]).tolist()
    names, name_maps = _numbered([part["names"]["name"].to_list() for part in parts])
    rows = [list(map(msgspec.json.encode, part["signatures"].iter_rows())) for part in parts]
    written, maps = _numbered(rows)
    table = _joined([part["signatures"] for part in parts])
    place = {text: at for at, text in enumerate(text for part in rows for text in part)}
    signatures, signature_maps = table[[place[text] for text in written]], maps
    frames = dict(own.frames)
    frames["names"] = pl.DataFrame({"name": names}, schema={"name": pl.String})
    frames["signatures"] = signatures
    # a capture's processes are not those of the replay, even where the system reused a number
    renamed = [
        part["tracks"].with_columns(pl.format("capture {} {}", pl.lit(at), "pid").alias("pid"))
        for at, part in enumerate(captures, 1)
    ]
    frames["tracks"] = _joined([own["tracks"], *renamed])
    tracks = np.cumsum([0, *(part["tracks"].height for part in parts)]).tolist()
    frames["events"] = _joined(
        [
            part["events"].with_columns(
                pl.Series("name_id", name_maps[at][part["events"]["name_id"].to_numpy()]),
                pl.col("track").cast(pl.Int64) + tracks[at],
            )
            for at, part in enumerate(parts)
        ]
    )
    for side in ("autograd", "comms", "frames", "launches", "shapes", "stacks", "triton"):
        moved = [
            part[side].with_columns(pl.col("event") + first[at]) for at, part in enumerate(parts)
        ]
        if side == "shapes":
            moved = [
                table.with_columns(pl.Series("signature", numbers[table["signature"].to_numpy()]))
                for table, numbers in zip(moved, signature_maps, strict=True)
            ]
        frames[side] = _joined(moved)
    return replace(own, frames=frames), first[1:-1]


def _joined(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(tables, how="vertical_relaxed")


def _numbered(parts: Sequence[Sequence[Text]]) -> tuple[list[Text], list[Ints]]:
    """The distinct values, those of the first part first, and the number of each value."""
    number: dict[Text, int] = {}
    maps = [
        np.array([number.setdefault(text, len(number)) for text in part], np.int64)
        for part in parts
    ]
    return list(number), maps
