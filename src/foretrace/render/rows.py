"""Any table as JSON, CSV or text."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

from foretrace.render.safe import csv_cell
from foretrace.render.table import table

if TYPE_CHECKING:
    import polars as pl


def json_text(frame: pl.DataFrame) -> str:
    """A list of objects, one per row."""
    rows = [dict(zip(frame.columns, row, strict=True)) for row in json_rows(frame)]
    document = {"schema": 1, "columns": frame.columns, "rows": rows}
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


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


def csv_text(frame: pl.DataFrame) -> str:
    """CSV in which no cell can be taken for a formula, and nothing acts on a terminal."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in frame.columns])
    for row in frame.iter_rows():
        cells = ((_cell(value), isinstance(value, str | list)) for value in row)
        writer.writerow([csv_cell(cell) if words else cell for cell, words in cells])
    return out.getvalue().rstrip("\n")


def table_text(frame: pl.DataFrame, rows: int) -> str:
    """The first rows as an aligned table."""
    shown = [[_cell(value) for value in row] for row in frame.head(rows).iter_rows()]
    words = tuple(at for at, kind in enumerate(frame.dtypes) if not kind.is_numeric())
    text = table(frame.columns, shown, left=words, width=160, indent="")
    more = frame.height - rows
    return text + (f"\n… and {more:,} more rows (--rows {frame.height})" if more > 0 else "")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)
