"""Recorded arguments as typed lists (see `schema.tables`): each distinct text is decoded once.

What fits is written again as JSON for Polars to decode: building nested lists from Python objects
takes twenty times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from foretrace.read.kineto.records import Int
from foretrace.schema.gaps import Ints

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

    Signatures are numbered in sorted order, so that they do not depend on the order of the file.
    """
    used, number = np.unique(forms, return_inverse=True)
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
