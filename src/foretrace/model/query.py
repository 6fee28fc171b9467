"""SQL over the tables of a trace, through Polars: a query reads these tables and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from foretrace.errors import UsageError

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_NAMES = re.compile(r"[a-z_]+", re.IGNORECASE)
# Polars' SQL has functions that read files (`read_csv`, `scan_parquet`). Polars can neither turn
# them off nor show a query's syntax tree, so no word of a query may begin like one of them.
_FORBIDDEN = re.compile(r"(?<![a-z0-9_])(?:read|scan)_", re.IGNORECASE)


def run(trace: Trace, query: str) -> pl.DataFrame:
    """The result of one query; a mistake in it is a `UsageError` with the tables listed."""
    if _FORBIDDEN.search(query):
        raise UsageError("sql: a query may read the tables of the trace and nothing else")
    words = set(_NAMES.findall(query.lower()))
    wanted = {name: trace.table(name) for name in trace.table_names() if name in words}
    try:
        return pl.SQLContext(wanted, eager=True).execute(query)
    except Exception as error:  # noqa: BLE001  Polars raises errors of a dozen kinds for bad SQL
        text = " ".join(str(error).split("\n")[0].split())
        raise UsageError(f"sql: {text}; tables: {', '.join(trace.table_names())}") from None
