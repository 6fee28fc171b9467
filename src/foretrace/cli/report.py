"""Share: Write one self-contained HTML page about one trace or two."""

from __future__ import annotations

import click

from foretrace.cli._options import PATH, Reading, flag, new_file, opens_trace, shown
from foretrace.errors import UsageError


@click.command("report", epilog="See: foretrace docs report")
@click.argument("traces", nargs=-1, required=True, type=PATH, metavar="TRACE [TRACE]")
@shown("-o", "--out", default="report.html", help="The file to write.")
@flag("--overwrite", "Replace a file of that name.")
@click.option(
    "--step", type=click.IntRange(0), help="Open at this step, from 0; else at the typical one."
)
@click.option(
    "-g", "--guess", multiple=True, metavar="TEXT", help="A guess to mark and show; repeatable."
)
@click.option(
    "--guesses",
    metavar="FILE",
    help="Guesses from a TOML file, or marked ones: the JSON of foretrace check --json.",
)
@click.option(
    "--ladder", metavar="FILE", help="A climb to show: the JSON of foretrace ladder --json."
)
@opens_trace
def command(
    traces: tuple[str, ...],
    out: str,
    overwrite: bool,
    step: int | None,
    guess: tuple[str, ...],
    guesses: str | None,
    ladder: str | None,
    reading: Reading,
) -> int:
    """Write one HTML file about one trace, or about two and what changed between them.

    The file holds everything it shows and needs no network: open it from disk, mail it, keep it.
    """
    from foretrace.render.html import write_report
    from foretrace.render.html.extras import climbed, marked

    if len(traces) > 2:
        raise UsageError("a report takes one or two traces; use foretrace compare for more")
    target = new_file(out, overwrite=overwrite)
    opened = [reading.trace(trace) for trace in traces]
    written = write_report(
        target, opened, step=step, guesses=marked(opened, guess, guesses), ladder=climbed(ladder)
    )
    click.echo(str(written))
    return 1 if reading.fails(*opened) else 0
