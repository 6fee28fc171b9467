"""`foretrace serve`."""

from __future__ import annotations

import click


@click.command("serve")
@click.argument("path")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="A port of your choice; a free one otherwise.")
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening it.")
@click.option("--no-cache", is_flag=True, help="Neither use nor write the cache.")
@click.option("--strict", is_flag=True, help="Exit 1 at once when the trace (or any in the folder) was mended, skipped or odd.")
@click.option("--limit", multiple=True, metavar="NAME=NUMBER", help="Raise a limit against hostile files.")
def command(path: str, port: int, no_browser: bool, no_cache: bool, strict: bool, limit: tuple[str, ...]) -> int:
    """Look at a folder of traces, or at a large one, in the browser. Nobody but this machine can.

    The address holds a token that is made anew each time. Stop with Ctrl+C.
    """
    from ..opening import open_all
    from ..serve.run import serve
    from ..sources.limits import parse_limits

    limits = parse_limits(limit)
    if strict and any(trace.ledger.lost_data for trace in open_all(path, cache=not no_cache, limits=limits)):
        return 1

    def ready(address: str) -> None:
        click.echo(address)
        if not no_browser:
            click.launch(address)

    serve(path, port=port, limits=limits, cache=not no_cache, ready=ready)
    return 0
