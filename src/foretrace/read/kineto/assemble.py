"""Columns of all parts become the tables of a trace, in one canonical order.

Events are sorted by time, and ties by what the events are, never by where they stood in the file: a
shuffled trace gives the same tables. Problems with times are noted here; an event with a problem
keeps its row and loses its time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from foretrace.read.kineto.arguments import signatures, sizes
from foretrace.read.kineto.columns import Columns
from foretrace.read.kineto.document import Document
from foretrace.read.kineto.joined import Joined, as_numpy, joined_arrays, json_text, mapped
from foretrace.read.kineto.layout import SIDES
from foretrace.read.kineto.oddities import note_oddities
from foretrace.read.kineto.times import EventTimes, clock_of, time_order
from foretrace.schema.gaps import Ints, with_gaps
from foretrace.schema.ledger import LedgerBuilder
from foretrace.schema.tables import NONE, Tables


def assemble(document: Document, ledger: LedgerBuilder) -> Tables:
    """Everything the model needs, from what was read."""
    parts = [part for part in document.columns if len(part)] or [Columns()]
    joined = Joined(parts)
    clock = clock_of(document.header, joined, ledger)
    times = EventTimes(joined, clock, ledger)
    joined.forget_times()
    order = time_order(joined, times)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    note_oddities(joined, parts, ledger)
    frames = {
        "events": _events(joined, times, order),
        "names": pl.DataFrame({"name": joined.names}, schema={"name": pl.String}),
        "tracks": joined.track_frame(),
    }
    frames |= _sides(parts, joined, position)
    return Tables(
        "kineto",
        frames,
        document.header,
        ledger.freeze(),
        clock.base_ns,
        clock.resolution_ns,
        joined.namespaces,
    )


def _events(joined: Joined, times: EventTimes, order: Ints) -> pl.DataFrame:
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


def _sides(parts: list[Columns], joined: Joined, position: Ints) -> dict[str, pl.DataFrame]:
    """The side tables, and the signatures that `shapes` refers to."""
    frames = {
        side: _side_frame(side, parts, joined, position) for side in SIDES if side != "labels"
    }
    event, forms = frames["shapes"]
    signature, frames["signatures"] = signatures(forms.to_numpy(), joined.text_list)
    frames["shapes"] = pl.DataFrame({"event": event, "signature": signature})
    return frames


def _side_frame(side: str, parts: list[Columns], joined: Joined, position: Ints) -> pl.DataFrame:
    """One side table: its events under their final numbers, in that order."""
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    event = np.concatenate(
        [
            position[as_numpy(part.sides[side]["event"], np.int64) + start]
            for part, start in zip(parts, starts, strict=False)
        ]
    )
    order = np.argsort(event, kind="stable")
    columns: dict[str, Any] = {"event": event[order]}
    for name, code, _ in SIDES[side]:
        written = [part.sides[side][name] for part in parts]
        if code in "il":
            forms = mapped(written, joined.text_maps)[order]
            columns[name] = forms if side == "shapes" else _values(forms, joined, code)
        else:
            columns[name] = _numbers(written, code)[order]
    return pl.DataFrame(columns)


def _values(forms: Ints, joined: Joined, code: str) -> pl.Series:
    """Interned texts, or the lists they hold, by their number; a negative number is null."""
    used, number = np.unique(forms, return_inverse=True)
    texts = [None if form < 0 else joined.text_list[form] for form in used.tolist()]
    if code == "l":
        return sizes(texts)[number.reshape(-1)]
    shown = [None if text is None else json_text(text) for text in texts]
    return pl.Series(shown, dtype=pl.String)[number.reshape(-1)]


def _numbers(written: list[Any], code: str) -> pl.Series:
    if code == "d":
        values = joined_arrays(written, np.float64)
        return with_gaps(values, ~np.isnan(values))
    values = joined_arrays(written)
    return with_gaps(values, values != NONE)
