"""Any table as JSON, CSV or text."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from foretrace.show.render.safe import csv_cell
from foretrace.show.render.table import table

if TYPE_CHECKING:
    import polars as pl

AT_ONCE = 10_000  # rows in a part of a text


def json_parts(frame: pl.DataFrame) -> Iterator[str]:
    """A document with a list of objects, one per row, in parts: it may be larger than memory."""
    yield f'{{"schema": 1, "columns": {_dumped(frame.columns)}, "rows": ['
    for at, part in enumerate(frame.iter_slices(AT_ONCE)):
        rows = [_dumped(dict(zip(frame.columns, row, strict=True))) for row in json_rows(part)]
        yield (", " if at and rows else "") + ", ".join(rows)
    yield "]}\n"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def json_rows(frame: pl.DataFrame) -> list[list[Any]]:
    """The rows as JSON values: a number that is not finite is null, other types are text."""
    return [[_json(value) for value in row] for row in frame.iter_rows()]


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    return value if value is None or isinstance(value, int | str) else str(value)


def csv_parts(frame: pl.DataFrame) -> Iterator[str]:
    """CSV in which no cell can be taken for a formula, and nothing acts on a terminal."""
    yield _lines([[csv_cell(name) for name in frame.columns]])
    for part in frame.iter_slices(AT_ONCE):
        typed = (
            [(_cell(value), isinstance(value, str | list)) for value in row]
            for row in part.iter_rows()
        )
        yield _lines([csv_cell(cell) if words else cell for cell, words in row] for row in typed)


def _lines(rows: Iterable[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def table_text(frame: pl.DataFrame, count: int) -> str:
    """The rows as an aligned table, the first of `count`."""
    shown = [[_cell(value) for value in row] for row in frame.iter_rows()]
    words = tuple(at for at, kind in enumerate(frame.dtypes) if not kind.is_numeric())
    text = table(frame.columns, shown, left=words, width=160, indent="")
    more = count - frame.height
    return text + (f"\n… and {more:,} more rows (--rows {count})" if more else "")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)
