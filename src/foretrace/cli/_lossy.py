"""A warning on stderr for a trace that lost data when it was recorded or read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def warn_of_loss(*traces: Trace | None) -> None:
    """Print one line for each trace whose ledger holds a note that every answer must show."""
    from foretrace.render.safe import plain
    from foretrace.units import count_text

    for trace in traces:
        if trace is not None and trace.ledger.banner:
            notes = (
                f"{note.code} ({count_text(note.count)}): {note.text}"
                for note in trace.ledger.banner
            )
            click.echo(plain(f"foretrace: warning: {trace.path}: {'; '.join(notes)}"), err=True)
