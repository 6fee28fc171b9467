"""Share: Open a trace in Perfetto without uploading it."""

from __future__ import annotations

import click

from foretrace.cli._options import PATH, new_file, opens_trace


@click.command("perfetto", epilog="See: foretrace docs share")
@click.argument("trace", type=PATH)
@click.option(
    "--annotated",
    metavar="FILE",
    help="Write a copy with findings, decoded names and ops as tracks, and open that.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file of that name.")
@click.option(
    "--port-9001",
    "direct",
    is_flag=True,
    help="Let Perfetto fetch the file from port 9001 instead.",
)
@click.option(
    "--no-browser",
    is_flag=True,
    help="Print the address instead of opening it; with --annotated, write and stop.",
)
@click.option("--wait", default=60.0, show_default=True, help="Seconds to wait for the browser.")
@opens_trace
def command(
    trace: str,
    annotated: str | None,
    overwrite: bool,
    direct: bool,
    no_browser: bool,
    wait: float,
    no_cache: bool,
    strict: bool,
    limit: tuple[str, ...],
) -> int:
    """Open TRACE in Perfetto's page. The trace stays on this machine: nothing is uploaded."""
    from pathlib import Path

    from foretrace import opening
    from foretrace.errors import UsageError
    from foretrace.share import handoff
    from foretrace.share.perfetto import annotated as write_annotated
    from foretrace.sources.limits import parse_limits

    copy = None if annotated is None else new_file(annotated, overwrite=overwrite)
    opened = opening.open(trace, cache=not no_cache, limits=parse_limits(limit))
    path = copy or Path(opened.path)
    if copy is not None:
        for label, count in write_annotated(opened, path).items():
            click.echo(f"{count:8,}  {ascii(label)[1:-1]}", err=True)
        click.echo(str(path))
    elif not path.is_file():
        raise UsageError(f"{trace} is not a plain file: pass --annotated FILE to write one")
    failed = 1 if strict and opened.ledger.lost_data else 0
    if copy is not None and no_browser:
        return failed
    server = handoff.one_file(path) if direct else handoff.page(path, path.name)
    click.echo(f"serving {server.address} (once, from this machine)", err=True)
    if not no_browser:
        click.launch(server.address)
    if not handoff.serve_until_fetched(server, wait):
        raise UsageError(f"the browser did not fetch the trace within {wait:.0f} s")
    return failed
