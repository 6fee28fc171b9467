"""Columns of all parts become the tables of a trace, in one canonical order.

Events are sorted by time, and ties by what the events are, never by where they stood in the file: a
shuffled trace gives the same tables. Problems with times are noted here; an event with a problem
keeps its row and loses its time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from foretrace.schema.gaps import with_gaps
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import NONE, Tables
from foretrace.sources.kineto.columns import Columns
from foretrace.sources.kineto.document import Document
from foretrace.sources.kineto.joined import (
    Joined,
    as_numpy,
    compact,
    concatenated,
    json_text,
    mapped,
)
from foretrace.sources.kineto.oddities import note_oddities
from foretrace.sources.kineto.timeline import Times, time_order
from foretrace.sources.kineto.times import Ints, clock_of


def assemble(document: Document, ledger: LedgerBuilder) -> Tables:
    """Everything the model needs, from what was read."""
    parts = [part for part in document.columns if len(part)]
    joined = Joined(parts)
    clock = clock_of(document.header, joined.ts[joined.ranged], document.origin_us, ledger)
    times = Times(joined, clock, ledger)
    joined.forget_times()
    order = time_order(joined, times)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    note_oddities(joined, parts, ledger)
    frames = {
        "events": _events(joined, times, order),
        "names": pl.DataFrame({"name": joined.names}, schema={"name": pl.String}),
        "tracks": joined.track_frame(parts, position),
    }
    frames |= (
        {
            side: _side_frame(side, parts, joined, position)
            for side in parts[0].sides
            if side != "labels"
        }
        if parts
        else _empty_sides()
    )
    return Tables(
        "kineto",
        frames,
        document.header,
        ledger.freeze(),
        clock.base_ns,
        clock.resolution_ns,
        joined.namespaces,
    )


def _events(joined: Joined, times: Times, order: Ints) -> pl.DataFrame:
    correlation, external = joined.correlation[order], joined.external[order]
    return pl.DataFrame(
        {
            "ts_ns": with_gaps(times.start[order], times.timed[order]),
            "dur_ns": with_gaps(times.length[order], times.lasting[order]),
            "kind_id": joined.kind[order],
            "name_id": joined.name[order],
            "track": joined.track[order],
            "correlation": with_gaps(correlation, correlation != NONE),
            "external_id": with_gaps(external, external != NONE),
            "namespace": joined.namespace[order],
        }
    )


def _side_frame(side: str, parts: list[Columns], joined: Joined, position: Ints) -> pl.DataFrame:
    """One side table: its events under their final numbers, in that order, with text and gaps
    filled in.
    """
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    event = concatenated(
        [
            position[as_numpy(part.sides[side]["event"], np.int64) + start]
            for part, start in zip(parts, starts, strict=False)
        ]
    )
    order = np.argsort(event, kind="stable")
    columns: dict[str, Any] = {"event": event[order]}
    for name, first in parts[0].sides[side].items():
        if name == "event":
            continue
        written = [part.sides[side][name] for part in parts]
        if first.typecode == "i":
            numbers = zip(written, joined.text_maps, strict=True)
            forms = concatenated(
                [mapped(as_numpy(values, np.int32), number) for values, number in numbers]
            )[order]
            columns |= (
                _signatures(forms, joined) if side == "shapes" else {name: _texts(forms, joined)}
            )
        else:
            columns[name] = _numbers(written, first.typecode)[order]
    return pl.DataFrame(columns)


def _texts(forms: Ints, joined: Joined) -> pl.Series:
    """Interned texts by their number; a negative number is no text."""
    used, number = np.unique(forms, return_inverse=True)
    texts = joined.text_list
    return pl.Series(
        [None if form < 0 else _text_of(texts[form]) for form in used.tolist()], dtype=pl.String
    )[number.reshape(-1)]


def _numbers(written: list[Any], code: str) -> pl.Series:
    if code == "d":
        values = concatenated([as_numpy(part, np.float64) for part in written], np.float64)
        return with_gaps(values, ~np.isnan(values))
    values = concatenated([as_numpy(part, np.int64) for part in written])
    return with_gaps(values, values != NONE)


def _signatures(values: Ints, joined: Joined) -> dict[str, Any]:
    """Shapes are interned as one text per op call form; each form is decoded once and its parts
    shared.
    """
    used = np.flatnonzero(np.bincount(values, minlength=1)) if len(values) else values
    place = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
    place[used] = np.arange(len(used))
    number = place[values]
    texts = joined.text_list
    split = [tuple(compact(piece) for piece in texts[form].split(b"\0")) for form in used.tolist()]
    forms = sorted(set(split))
    rank = {form: index for index, form in enumerate(forms)}
    columns: dict[str, Any] = {
        "signature": np.array([rank[form] for form in split], np.int64)[number]
        if len(values)
        else values
    }
    for index, name in enumerate(("dims", "types", "strides", "concrete")):
        column = pl.Series([form[index] or None for form in forms], dtype=pl.String)
        columns[name] = column[columns["signature"]]
    return columns


def _text_of(text: Any) -> str:
    return text if isinstance(text, str) else json_text(text)


def _empty_sides() -> dict[str, pl.DataFrame]:
    part = Columns()
    part.add([])
    columns = Joined([part])
    return {
        side: _side_frame(side, [part], columns, np.empty(0, np.int64))
        for side in part.sides
        if side != "labels"
    }
