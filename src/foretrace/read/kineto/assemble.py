"""Columns of all parts become the tables of a trace, in one canonical order.

Events are sorted by time, and ties by what the events are, never by where they stood in the file: a
shuffled trace gives the same tables. Problems with times are noted here; an event with a problem
keeps its row and loses its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from foretrace.base.arrays import Ints, coded, with_gaps
from foretrace.read.kineto.columns import Columns
from foretrace.read.kineto.document import Document
from foretrace.read.kineto.joined import Joined, event_rows, joined_arrays, json_text, mapped
from foretrace.read.kineto.records import KNOWN_CATEGORIES, KNOWN_PHASES, SIDES, Int
from foretrace.read.kineto.times import EventTimes, align, clock_of, time_order
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.tables import KIND, KINDS, NONE, Tables

_NUMBERS = pl.List(pl.Int64)
_SIZES = pl.List(_NUMBERS)
_COLUMNS: dict[str, pl.DataType] = {
    "dims": _SIZES,
    "types": pl.List(pl.String),
    "strides": _SIZES,
    "concrete": pl.List(pl.String),
    "list_dims": pl.List(_SIZES),
    "list_strides": pl.List(_SIZES),
}
_tensors = msgspec.json.Decoder(list[list[Int]]).decode
_any = msgspec.json.Decoder().decode
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def sizes(texts: Sequence[bytes | None]) -> pl.Series:
    """Grids or blocks; null for anything but a list of whole numbers."""
    return _decoded([_json(_fitting(_listed(text or b""), list[Int])) for text in texts], _NUMBERS)


def signatures(forms: Ints, texts: Sequence[bytes]) -> tuple[Ints, pl.DataFrame]:
    """The signature of each row, and the table of signatures; `forms` are positions in `texts`.

    Each distinct text is decoded once. What fits is written again as JSON for Polars to decode:
    building nested lists from Python objects takes twenty times as long. Signatures are numbered in
    sorted order, so that they do not depend on the order of the file.
    """
    used, number = coded(forms)
    rows = [_row(texts[form]) for form in used.tolist()]
    distinct = sorted(set(rows))
    rank = {row: place for place, row in enumerate(distinct)}
    table = {
        name: _decoded([row[place] for row in distinct], kind)
        for place, (name, kind) in enumerate(_COLUMNS.items())
    }
    return np.array([rank[row] for row in rows], np.int64)[number.reshape(-1)], pl.DataFrame(table)


def _row(text: bytes) -> tuple[str, ...]:
    """The columns of one signature as JSON, from the four texts that `Columns` joined."""
    dims, types, strides, concrete = text.split(b"\0")
    plain, nested = _shapes(dims)
    plain_strides, nested_strides = _shapes(strides)
    words, values = _listed(types), _listed(concrete)
    named = words and [item if isinstance(item, str) else "" for item in words]
    shown = values and [str(item) for item in values]
    columns = (plain, named, plain_strides, shown, nested, nested_strides)
    return tuple(_json(column) for column in columns)


def _shapes(text: bytes) -> tuple[list[Any] | None, list[Any] | None]:
    """(sizes of each tensor, sizes of each TensorList's tensors)."""
    try:
        return _tensors(text), None
    except _BROKEN:
        found = _listed(text)
    if not found:
        return found, None
    nested = [_fitting(item, list[list[Int]]) if item else None for item in found]
    return [_fitting(item, list[Int]) for item in found], nested if any(nested) else None


def _fitting(item: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(item, kind)
    except msgspec.ValidationError:
        return None


def _listed(text: bytes) -> list[Any] | None:
    try:
        found = _any(text) if text else None
    except _BROKEN:
        return None
    return found if isinstance(found, list) else None


def _json(value: list[Any] | None) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _decoded(texts: list[str], kind: pl.DataType) -> pl.Series:
    if not any(texts):
        return pl.Series([None] * len(texts), dtype=kind)
    return pl.Series([text or None for text in texts], dtype=pl.String).str.json_decode(kind)


_LEGACY = "CPU functions"  # the process of every range that torch.autograd.profiler wrote by itself


def note_oddities(joined: Joined, parts: list[Columns], ledger: LedgerBuilder) -> None:
    """Note unknown and unfinished events, repeated ids, merged ranks and lone arrows."""
    counts = np.bincount(joined.site, minlength=len(joined.sites))
    phases = categories = 0
    for (phase, category, _, _), count in zip(joined.sites, counts.tolist(), strict=True):
        if phase not in KNOWN_PHASES:
            phases += count
        elif phase == "X" and category.lower() not in KNOWN_CATEGORIES:
            categories += count
    ledger.note("legacy_format", any(pid == _LEGACY for _, _, pid, _ in joined.sites))
    ledger.note("unknown_phase", phases)
    ledger.note("unknown_category", categories)
    ledger.note("unfinished_event", joined.unfinished)
    ledger.note("arg_type", sum(part.coerced for part in parts))
    # two backward evaluations with one sequence number cannot both belong to that forward op
    evaluates = np.array(
        [name.startswith("autograd::engine::evaluate_function") for name in joined.names], np.bool_
    )
    sides = [part.sides["autograd"] for part in parts]
    rows = event_rows(parts, [side["event"] for side in sides])
    mine = evaluates[joined.name[rows]] if len(rows) else np.zeros(0, np.bool_)
    columns = ("sequence", "forward_thread")
    numbers = [joined_arrays([side[name] for side in sides])[mine] for name in columns]
    process = joined.process[joined.track[rows[mine]]]
    keys = np.stack([*numbers, process])  # processes count on their own
    order = np.lexsort(keys)
    repeats = (keys[:, order[1:]] == keys[:, order[:-1]]).all(0)
    ledger.note("seq_duplicate", int(repeats.sum()))
    if len(joined.namespaces) > 1:
        shown = ", ".join(joined.namespaces[:8])
        text = f"{len(joined.namespaces)} ranks were merged into this file: {shown}"
        ledger.note("merged_trace", text=text)
    if "unknown" in joined.names:
        replaced = joined.names.index("unknown")
        ledger.note("name_replaced", int((joined.name[joined.ranged] == replaced).sum()))
    _note_orphans(joined, ledger)


def _note_orphans(joined: Joined, ledger: LedgerBuilder) -> None:
    """Arrows from launch to kernel with one end only: normal in Kineto; nothing depends on them."""
    flow = joined.kind == KIND["flow"]
    if not flow.any():
        return
    links = np.array([category.lower() != "fwdbwd" for _, category, _, _ in joined.sites])
    starts = np.array([phase == "s" for phase, _, _, _ in joined.sites])
    linked = flow & links[joined.site] & (joined.correlation != NONE)
    # sorted, an id that both sides have stands beside itself
    sides = (starts[joined.site], ~starts[joined.site])
    ends = [np.sort(joined.correlation[linked & side]) for side in sides]
    once = [mine[np.diff(mine, prepend=NONE) != 0] for mine in ends]
    both = np.sort(np.concatenate(once))
    ledger.note("flow_orphan", len(both) - 2 * int((both[1:] == both[:-1]).sum()))


def assemble(document: Document, ledger: LedgerBuilder) -> Tables:
    """Everything the model needs, from what was read."""
    parts = [part for part in document.columns if len(part)] or [Columns()]
    joined = Joined(parts)
    clock = clock_of(document.header, joined, ledger)
    times = EventTimes(joined, clock, ledger)
    # the times as written are not needed any more: those of millions of events take room
    joined.ts = joined.dur = np.empty(0, np.float64)
    lag_ns = align(joined, times, ledger)
    order = time_order(joined, times)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    note_oddities(joined, parts, ledger)
    correlation, external = joined.correlation[order], joined.external[order]
    frames = {
        "events": pl.DataFrame(
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
        ),
        "names": pl.DataFrame({"name": joined.names}, schema={"name": pl.String}),
        "tracks": joined.track_frame(),
    }
    frames |= {
        side: _side_frame(side, parts, joined, position) for side in SIDES if side != "labels"
    }
    event, forms = frames["shapes"]
    signature, frames["signatures"] = signatures(forms.to_numpy(), joined.text_list)
    frames["shapes"] = pl.DataFrame({"event": event, "signature": signature})
    return Tables(
        "kineto",
        frames,
        document.header,
        ledger.freeze(),
        clock.base_ns,
        clock.resolution_ns,
        joined.namespaces,
        lag_ns,
        _last(joined, times, position) if ledger.counts.get("trace_truncated") else -1,
    )


_ADDED = {"span", "gpu_user_annotation", "metadata"}  # behind all that the program did


def _last(joined: Joined, times: EventTimes, position: Ints) -> int:
    """The event that a cut file ends with. Each thread and stream stands by itself there, in order
    of time: what begins later is missing.
    """
    rows = np.flatnonzero(times.lasting)[-1:]
    kinds = {KINDS[kind] for kind in joined.kind[[*rows, -1]]} if len(rows) else _ADDED
    return int(position[rows[0]]) if kinds.isdisjoint(_ADDED) else -1


def _side_frame(side: str, parts: list[Columns], joined: Joined, position: Ints) -> pl.DataFrame:
    """One side table: its events under their final numbers, in that order."""
    event = position[event_rows(parts, [part.sides[side]["event"] for part in parts])]
    order = np.argsort(event, kind="stable")
    columns: dict[str, Any] = {"event": event[order]}
    for name, code, _ in SIDES[side]:
        written = [part.sides[side][name] for part in parts]
        if code in "il":
            forms = mapped(written, joined.text_maps)[order]
            columns[name] = forms if side == "shapes" else _values(forms, joined, code)
        else:
            values = joined_arrays(written, np.float64 if code == "d" else np.int64)
            there = ~np.isnan(values) if code == "d" else values != NONE
            columns[name] = with_gaps(values, there)[order]
    return pl.DataFrame(columns)


def _values(forms: Ints, joined: Joined, code: str) -> pl.Series:
    """Interned texts, or the lists they hold, by their number; a negative number is null."""
    used, number = coded(forms)
    texts = [None if form < 0 else joined.text_list[form] for form in used.tolist()]
    if code == "l":
        return sizes(texts)[number.reshape(-1)]
    shown = [None if text is None else json_text(text) for text in texts]
    return pl.Series(shown, dtype=pl.String)[number.reshape(-1)]
