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


# Polars also runs DROP, DELETE and CREATE, which would print nothing or an empty table.
_READS = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*+(?:select|with|from|values|explain|show)\b", re.I | re.S
)
_UNKNOWN = re.compile(r"(column|relation)(?: named)? [\"']([^\"']+)[\"']")


def run(trace: Trace, query: str) -> pl.DataFrame:
    """The result of one query; a mistake in it is a `UsageError` that says what to write."""
    if not _READS.match(query):
        raise UsageError("sql: a query reads tables: begin with SELECT or WITH")
    if _FORBIDDEN.search(query):
        raise UsageError("sql: a query may read the tables of the trace and nothing else")
    words = set(_NAMES.findall(query.lower()))
    wanted = {name: trace.table(name) for name in trace.table_names() if name in words}
    try:
        return pl.SQLContext(wanted, eager=True).execute(query)
    except Exception as error:  # noqa: BLE001  Polars raises errors of a dozen kinds for bad SQL
        text = " ".join(str(error).split("\n")[0].split())
        columns = dict.fromkeys(name for table in wanted.values() for name in table.columns)
        raise UsageError(f"sql: {_explained(text, list(columns), trace.table_names())}") from None


def _explained(text: str, columns: list[str], tables: list[str]) -> str:
    """Polars' message; for a name that does not exist, the nearest ones that do."""
    unknown = _UNKNOWN.search(text)
    if unknown is None:
        return text
    from difflib import get_close_matches

    what, names = ("column", columns) if unknown[1] == "column" else ("table", tables)
    close = get_close_matches(unknown[2].lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`foretrace sql TRACE` lists them"
    return f"no {what} {unknown[2]!r}: {hint}"
