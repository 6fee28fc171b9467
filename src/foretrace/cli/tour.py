"""`foretrace tour`."""

from __future__ import annotations

import sys

import click


@click.command("tour")
@click.option("--card", default="h200", show_default=True, help="Whose recordings to read.")
def command(card: str) -> int:
    """Read the traces that ship with foretrace and say what they show. Needs no torch and no GPU."""
    from .. import recorded
    from ..errors import UsageError
    from ..opening import look_document
    from ..render.tour import tour_text

    if card not in recorded.cards():
        raise UsageError(f"no recordings of {card!r}; there are: {', '.join(recorded.cards())}")
    documents = {}
    with click.progressbar(recorded.traces(card).items(), label="reading", file=sys.stderr) as bar:
        for name, path in bar:
            documents[name] = look_document(str(path))["look"]
    click.echo(tour_text(documents))
    return 0
