"""Browse a folder of traces in a local viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.look.steering import Steering


@click.command("serve", epilog="See: foretrace docs serve")
@click.argument("path", type=use.PATH, required=False)
@use.option("--port", "The port; a free one otherwise.", type=click.IntRange(0, 65535), default=0)
@use.flag("--no-browser", "Print the address instead of opening it.")
@use.steers
@use.opens_trace
def command(
    path: str | None, port: int, no_browser: bool, reading: use.Reading, steering: Steering
) -> int:
    """Show a folder of traces, a large trace or a memory snapshot in this machine's browser only.

    Without PATH the folder that the project's pyproject.toml names (traces).

    The address holds a token that is new each time. Stop with Ctrl+C. With --strict nothing is
    served when any trace was repaired, lost records or is odd.
    """
    from foretrace.base.budget import waiting
    from foretrace.base.terminal import plain
    from foretrace.pages.serve.run import prepare, prepare_snapshot
    from foretrace.read.door import SnapshotFile, TraceFile, TraceFolder
    from foretrace.trace.opening import open_all

    found = reading.opened(path or use.project_traces(), TraceFile, TraceFolder, SnapshotFile)
    cache, limits = reading.cache, reading.limits
    snapshot = isinstance(found, SnapshotFile)
    opened = open_all(found, cache=cache, limits=limits) if reading.strict and not snapshot else []
    odd = [trace for trace in opened if trace.ledger.lost_data]
    for trace in odd:
        notes = [note.text for note in trace.ledger.notes if note.severity != "info"]
        why = notes[0] if notes else "records were repaired or skipped"
        use.say(plain(f"{trace.path}: {why}; nothing is served; omit --strict to serve it"))
    if odd:
        return 1

    if snapshot:
        server, sockets, address = prepare_snapshot(found.path, port=port, limits=limits)
    else:
        server, sockets, address = prepare(
            found, port=port, limits=limits, cache=cache, steering=steering
        )
    click.echo(address)
    with use.in_browser(address, wanted=not no_browser), waiting():
        server.run(sockets=sockets)
    return 0
