"""One line on stderr for a trace that is not as it was written; the answer on stdout rests on what
is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def warn_of_loss(*traces: Trace | None) -> None:
    """Say of each trace what its ledger holds that every answer must show."""
    from foretrace.render.safe import plain
    from foretrace.units import count_text

    for trace in traces:
        notes = trace.ledger.banner if trace is not None else ()
        if trace is not None and notes:
            said = "; ".join(
                f"{note.code} ({count_text(note.count)}): {note.text}" for note in notes
            )
            click.echo(plain(f"foretrace: warning: {trace.path}: {said}"), err=True)
