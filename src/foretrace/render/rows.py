"""Any table as JSON, CSV or text."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from .safe import csv_cell
from .table import table

if TYPE_CHECKING:
    import polars as pl


def json_text(frame: pl.DataFrame) -> str:
    """A list of objects, one per row."""
    return json.dumps({"schema": 1, "columns": frame.columns, "rows": frame.to_dicts()}, ensure_ascii=False, default=str)


def csv_text(frame: pl.DataFrame) -> str:
    """CSV in which no cell can be taken for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in frame.columns])
    for row in frame.iter_rows():
        writer.writerow([csv_cell(value) if isinstance(value, str) else _cell(value) for value in row])
    return out.getvalue().rstrip("\n")


def table_text(frame: pl.DataFrame, rows: int) -> str:
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
        return " > ".join(str(item) for item in value)
    return str(value)
