"""SQL over the tables of a trace, through Polars: a query reads these tables and nothing else.

`run` works in this process, for Python. The commands and the viewer use `query_process`, because a
query may take all memory, never end, or crash Polars.
"""

from __future__ import annotations

import re

import polars as pl

from foretrace.base.errors import UsageError
from foretrace.model.analysis import Analysis

_NAMES = re.compile(r"[a-z_]+", re.IGNORECASE)
# Polars' SQL has functions that read files (`read_csv`, `scan_parquet`). Polars can neither turn
# them off nor show a query's syntax tree, so no word of a query may begin like one of them.
_FORBIDDEN = re.compile(r"(?<![a-z0-9_])(?:read|scan)_", re.IGNORECASE)


# Polars also runs DROP, DELETE and CREATE, which would print nothing or an empty table.
_READS = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*+(?:select|with|from|values|explain|show)\b", re.I | re.S
)
_UNKNOWN = re.compile(r"(column|relation)(?: named)? [\"']([^\"']+)[\"']")


def run(trace: Analysis, query: str) -> pl.DataFrame:
    """The result of one query; a mistake in it is a `UsageError` that says what to write."""
    tables = tables_of(trace, query)
    try:
        return pl.SQLContext(tables, eager=True).execute(query)
    # Polars raises errors of a dozen kinds for bad SQL
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001
        raise mistake(str(error), trace, tables) from None


def check(query: str) -> None:
    """Refuse a query that does anything but read tables."""
    if not _READS.match(query):
        raise UsageError("sql: a query reads tables: begin with SELECT or WITH")
    if _FORBIDDEN.search(query):
        raise UsageError("sql: a query may read the tables of the trace and nothing else")


def tables_of(trace: Analysis, query: str) -> dict[str, pl.DataFrame]:
    """The tables that a query names, once it is checked."""
    check(query)
    words = set(_NAMES.findall(query.lower()))
    return {name: trace.table(name) for name in trace.table_names() if name in words}


def mistake(said: str, trace: Analysis, tables: dict[str, pl.DataFrame]) -> UsageError:
    """Polars' message as one line; for a name that does not exist, the nearest ones that do."""
    text = " ".join(said.split("\n")[0].split())
    unknown = _UNKNOWN.search(text)
    if unknown is None:
        return UsageError(f"sql: {text}")
    from difflib import get_close_matches

    columns = dict.fromkeys(name for table in tables.values() for name in table.columns)
    is_column = unknown[1] == "column"
    names, wrong = (list(columns) if is_column else trace.table_names()), unknown[2]
    close = get_close_matches(wrong.lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`foretrace sql TRACE` lists them"
    return UsageError(f"sql: no {'column' if is_column else 'table'} {wrong!r}: {hint}")
