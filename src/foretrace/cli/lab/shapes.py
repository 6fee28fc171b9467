"""Measure what a new input shape costs."""

from __future__ import annotations

from typing import Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use
from foretrace.cli.lab import builds_rung, rung_names
from foretrace.record.rung import Choice


@click.command("shapes", epilog="See: foretrace docs shapes")
@click.argument("rung", shell_complete=rung_names)
@use.option(
    "--contenders A,B,C",
    "Only these, in this order: eager, static, dynamic, automatic, liger, …",
    default="",
)
@builds_rung()
@use.option("--recorded CARD", "Show the packaged run instead (h200): no torch, no GPU.")
@use.flag("--all", "Every shape of every contender, and why each was recompiled.")
@use.in_tables
def command(rung: str, contenders: str, recorded: str | None, form: str, **rest: Any) -> None:
    """Show what each way of running RUNG pays when the shape changes, and its speed after that.

    \b
    foretrace lab shapes mlp                       six shapes of batch, seq and hidden
    foretrace lab shapes mlp --recorded h200       the run inside the package
    foretrace lab shapes attention --contenders naive,automatic --small

    The contenders are the rung's first variant, eager and compiled (static, dynamic, automatic),
    and its other variants. Each visits the same shapes in the same order and starts with nothing
    compiled, like a server that sees one shape after another.
    """
    from foretrace.record.lab_lines import shapes_page

    every, choice = rest.pop("all"), Choice(**rest)
    if recorded:
        if contenders or choice != Choice():
            raise UsageError("--recorded shows a run as it was: leave out what says how to run")
        from msgspec import json

        from foretrace.read import recordings
        from foretrace.record.lab_documents import ShapesDocument

        content = recordings.shapes_run(rung, recorded).read_bytes()
        document = json.decode(content, type=ShapesDocument)
    else:
        from foretrace.learn.ladder import rung as find
        from foretrace.record.profiling import need_torch

        need_torch()
        from foretrace.record.experiments.shapes import default_shapes, shapes

        subject = find(rung)
        names = [name.strip() for name in contenders.split(",") if name.strip()]
        visited = default_shapes(subject, small=choice.small)
        document = shapes(subject, visited, names, choice, use.say)
    everything = every or form == "markdown"
    use.answer_in_tables(form, document, lambda: shapes_page(document, every=everything))
