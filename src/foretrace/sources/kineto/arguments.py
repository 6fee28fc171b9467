"""Recorded arguments as typed lists (see `schema.tables`): each distinct text is decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from foretrace.schema.gaps import Ints
from foretrace.sources.kineto.records import Int

_SIZES = pl.List(pl.List(pl.Int64))
_COLUMNS: dict[str, pl.DataType] = {
    "dims": _SIZES,
    "types": pl.List(pl.String),
    "strides": _SIZES,
    "concrete": pl.List(pl.String),
    "list_dims": pl.List(_SIZES),
    "list_strides": pl.List(_SIZES),
}
_sizes = msgspec.json.Decoder(list[Int], strict=True).decode
_plain = msgspec.json.Decoder(list[list[Int]], strict=True).decode
_values = msgspec.json.Decoder().decode
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def sizes(text: bytes) -> list[int] | None:
    """A grid or a block; None for anything but a list of whole numbers."""
    try:
        return _sizes(text)
    except _BROKEN:
        return None


def signatures(forms: Ints, texts: Sequence[bytes]) -> tuple[Ints, pl.DataFrame]:
    """The signature of each row, and the table of signatures; `forms` are positions in `texts`.

    Signatures are numbered in sorted order, so that they do not depend on the order of the file.
    """
    used, number = np.unique(forms, return_inverse=True)
    rows = [_row(texts[form]) for form in used.tolist()]
    keys = [msgspec.json.encode(row) for row in rows]
    distinct = dict(sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0]))
    rank = {key: place for place, key in enumerate(distinct)}
    table = pl.DataFrame(
        {
            name: pl.Series([row[place] for row in distinct.values()], dtype=kind)
            for place, (name, kind) in enumerate(_COLUMNS.items())
        }
    )
    return np.array([rank[key] for key in keys], np.int64)[number.reshape(-1)], table


def _row(text: bytes) -> tuple[Any, ...]:
    """The columns of one signature, from the four texts that `Columns` joined."""
    dims, types, strides, concrete = text.split(b"\0")
    (plain, nested), (plain_strides, nested_strides) = _shapes(dims), _shapes(strides)
    words, values = _listed(types), _listed(concrete)
    return (
        plain,
        words and [item if isinstance(item, str) else "" for item in words],
        plain_strides,
        values and [str(item) for item in values],
        nested,
        nested_strides,
    )


def _shapes(text: bytes) -> tuple[list[Any] | None, list[Any] | None]:
    """(sizes of each tensor, sizes of each TensorList's tensors)."""
    try:
        return _plain(text), None
    except _BROKEN:
        found = _listed(text)
    if not found:
        return None, None
    nested = [_convert(item, list[list[Int]]) if item else None for item in found]
    return [_convert(item, list[Int]) for item in found], nested if any(nested) else None


def _convert(item: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(item, kind)
    except msgspec.ValidationError:
        return None


def _listed(text: bytes) -> list[Any] | None:
    try:
        found = _values(text) if text else None
    except _BROKEN:
        return None
    return found if isinstance(found, list) else None
