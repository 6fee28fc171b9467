"""Predict: Check predictions about a trace: hit, miss or unknown."""

from __future__ import annotations

import click

from foretrace.cli._options import PATH, Reading, as_json, flag, opens_trace, warn_of_loss
from foretrace.errors import UsageError


@click.command("check", epilog="See: foretrace docs guess")
@click.argument("trace", type=PATH)
@click.option(
    "-g",
    "--guess",
    "texts",
    multiple=True,
    metavar="TEXT",
    help="A prediction, such as 'in mlp_fwd: kernels == 5'.",
)
@click.option(
    "--guesses", "files", multiple=True, metavar="FILE.toml", help="Predictions and their reasons."
)
@click.option(
    "--against", metavar="OTHER", help="The trace to compare with; predictions call it A."
)
@flag("--need-data", "Exit 1 for unknown predictions as well.")
@as_json
@opens_trace
def command(
    trace: str,
    texts: tuple[str, ...],
    files: tuple[str, ...],
    against: str | None,
    need_data: bool,
    as_json: bool,
    reading: Reading,
) -> int:
    """Mark predictions about TRACE: hit, miss or unknown, each with what was measured.

    \b
    foretrace check t.json.gz -g 'in mlp_fwd: kernels == 5' -g 'gelu and mul are fused'
    foretrace check t.json.gz --guesses guesses.toml --against before.json.gz

    A miss shows the part of the trace that decides it, and the likely reason where one is known.
    The exit code is 1 when a prediction missed. A prediction is unknown when the trace does not
    have the data, or when the trace is truncated or damaged.
    """
    from foretrace.guess import check, parse
    from foretrace.guess.guess_files import load
    from foretrace.guess.marking import document
    from foretrace.render.verdicts import verdicts_text
    from foretrace.schema.documents import encode

    guesses = [parse(text) for text in texts] + [guess for file in files for guess in load(file)]
    if not guesses:
        raise UsageError("nothing to check: give -g TEXT or --guesses FILE.toml")
    opened = reading.trace(trace)
    other = reading.trace(against) if against else None
    warn_of_loss(opened, other)
    verdicts = check(opened, guesses, other)
    click.echo(encode(document(verdicts)) if as_json else verdicts_text(verdicts))
    failing = ("miss", "unknown") if need_data else ("miss",)
    failed = any(verdict.verdict in failing for verdict in verdicts)
    return 1 if failed or reading.fails(opened, other) else 0
