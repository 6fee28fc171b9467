"""Open a trace in Perfetto without uploading it."""

from __future__ import annotations

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use

LONGEST_WAIT_S = 86_400


@click.command("perfetto", epilog="See: foretrace docs share")
@click.argument("trace", type=use.PATH)
@use.option(
    "--annotated FILE",
    "Write a copy with findings, decoded names and ops as tracks, and open that.",
)
@use.flag("--overwrite", "Replace a file of that name.")
@use.flag("--port-9001", "Let Perfetto fetch the file from port 9001 instead.")
@use.flag(
    "--no-browser", "Print the address instead of opening it; with --annotated, write and stop."
)
@use.shown("--wait", "Seconds to wait for the browser.", default=60.0)
@use.opens_trace
def command(
    trace: str,
    annotated: str | None,
    overwrite: bool,
    port_9001: bool,
    no_browser: bool,
    wait: float,
    reading: use.Reading,
) -> int:
    """Open TRACE in Perfetto's page. The trace stays on this machine: nothing is uploaded."""
    from pathlib import Path

    from foretrace.base.budget import waiting
    from foretrace.show.share import handoff
    from foretrace.show.share.perfetto import annotated as write_annotated

    if not 0 < wait <= LONGEST_WAIT_S:  # nor is it NaN
        raise UsageError(f"--wait {wait}: write seconds, at most {LONGEST_WAIT_S:,}")
    copy = None if annotated is None else use.new_file(annotated, overwrite=overwrite)
    opened = reading.trace(trace)
    path = copy or Path(opened.path)
    if copy is not None:
        for label, count in write_annotated(opened, path).items():
            click.echo(f"{count:8,}  {ascii(label)[1:-1]}", err=True)
        click.echo(str(path))
    elif not path.is_file():
        raise UsageError(f"{trace} is not a plain file: pass --annotated FILE to write one")
    failed = 1 if reading.fails(opened) else 0
    if copy is not None and no_browser:
        return failed
    server = handoff.one_file(path) if port_9001 else handoff.page(path, path.name)
    click.echo(f"serving {server.address} (once, from this machine)", err=True)
    with use.in_browser(server.address, wanted=not no_browser), waiting():
        fetched = handoff.serve_until_fetched(server, wait)
    if not fetched:
        raise UsageError(f"the browser did not fetch the trace within {wait:.0f} s")
    return failed
