"""SQL over the tables of a trace, through Polars: nothing leaves the process and nothing can be
written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from foretrace.errors import UsageError

if TYPE_CHECKING:
    from foretrace.model.trace import Trace

_NAMES = re.compile(r"[a-z_]+", re.IGNORECASE)
# Polars' SQL has functions that read files (`read_csv`, `scan_parquet`), quoted, spaced and
# commented in many ways: a query may name the tables of the trace and nothing else, so nothing that
# begins like one of them may stand in it.
_FORBIDDEN = re.compile(r"(?<![a-z0-9_])(?:read|scan)_", re.IGNORECASE)


def run(trace: Trace, query: str) -> pl.DataFrame:
    """The result of one query; a mistake in it is a `UsageError` with the tables listed."""
    if _FORBIDDEN.search(query):
        raise UsageError("sql: a query may read the tables of the trace and nothing else")
    words = set(_NAMES.findall(query.lower()))
    wanted = {name: trace.table(name) for name in trace.table_names() if name in words}
    try:
        return pl.SQLContext(wanted, eager=True).execute(query)
    except Exception as error:
        text = " ".join(str(error).split("\n")[0].split())
        raise UsageError(f"sql: {text}; tables: {', '.join(trace.table_names())}") from None
