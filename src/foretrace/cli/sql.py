"""Read: Query a trace with SQL."""

from __future__ import annotations

from contextlib import closing

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use


@click.command("sql", epilog="See: foretrace docs sql")
@click.argument("trace", type=use.PATH)
@click.argument("query", required=False)
@use.as_json
@use.flag("--csv", "Comma-separated values (cells that look like formulas are quoted).")
@use.shown("--rows", "How many rows to print as a table.", default=50, type=click.IntRange(0))
@use.opens_trace
def command(
    trace: str, query: str | None, as_json: bool, csv: bool, rows: int, reading: use.Reading
) -> int:
    """Query a trace with SQL. Without QUERY, list the tables and their columns.

    \b
    foretrace sql t.json.gz "select name, count(*) n, sum(dur_ns) ns from kernels group by name
    order by ns desc"
    """
    import json

    from foretrace.model.query import QueryProcess, check
    from foretrace.show.render import export as render

    if as_json and csv:
        raise UsageError("choose one of --json and --csv")
    if query is None:
        opened = reading.trace(trace)
        use.warn_of_loss(opened)
        tables = {name: opened.table(name).columns for name in opened.table_names()}
        listed = "\n".join(f"{name}: {', '.join(columns)}" for name, columns in tables.items())
        click.echo(json.dumps({"schema": 1, "tables": tables}) if as_json else listed)
        return 1 if reading.fails(opened) else 0
    check(query)
    with closing(QueryProcess()) as process:  # it starts while the trace is read
        opened = reading.trace(trace)
        use.warn_of_loss(opened)
        wanted = None if as_json or csv else rows
        found = process.run(opened, query, reading.limits, wanted)
    if wanted is None:
        for part in (render.json_parts if as_json else render.csv_parts)(found.frame):
            click.echo(part, nl=False)
    else:
        click.echo(render.table_text(found.frame, found.count))
    return 1 if reading.fails(opened) else 0
