"""Measure what a new input shape costs."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli import _options as use
from foretrace.schema.rung import Choice

if TYPE_CHECKING:
    from foretrace.schema.documents.shapes import ShapesDocument


@click.command("shapes", epilog="See: foretrace docs shapes")
@click.argument("rung", shell_complete=use.rung_names)
@use.option(
    "--contenders A,B,C",
    "Only these, in this order: eager, static, dynamic, automatic, liger, …",
    default="",
)
@use.option(
    "--sweep NAME=A,B,C",
    "Values of one size of the rung; may be repeated, the last one changes fastest.",
    to="sweeps",
    multiple=True,
)
@use.builds_rung()
@use.option("--recorded CARD", "Show the packaged run instead (h200): no torch, no GPU.")
@use.flag(
    "--keep-compiler-cache",
    "Use your own Inductor cache instead of an empty one. A filled cache hides the cost.",
    to="keep_cache",
)
@use.option("--plot", "Also draw a plot (.svg, .png).", type=click.Path(path_type=Path))
@use.flag("--all", "Every shape of every contender, and why each was recompiled.")
@use.in_forms
def command(
    rung: str,
    sweeps: tuple[str, ...],
    contenders: str,
    recorded: str | None,
    keep_cache: bool,
    plot: Path | None,
    form: str,
    **rest: Any,
) -> None:
    """Show what each way of running RUNG pays when the shape changes, and its speed after that.

    RUNG may be your own `file.py:function`, which returns a callable and its inputs. Its parameters
    that default to a whole number are the sizes of --sweep.

    \b
    foretrace lab shapes mlp                                     six shapes of batch, seq and hidden
    foretrace lab shapes bench.py:setup --sweep batch=8,16,64
    foretrace lab shapes mlp --sweep batch=8,16,64 --sweep seq=64,128
    foretrace lab shapes attention --contenders naive,automatic --small
    foretrace lab shapes mlp --plot shapes.svg
    foretrace lab shapes mlp --recorded h200                     the run inside the package

    The contenders are the rung's first variant, eager and compiled (static, dynamic, automatic),
    and its other variants. Each visits the same shapes in the same order and starts with nothing
    compiled, like a server that sees one shape after another.
    """
    from foretrace.show.render.experiments import need_matplotlib, plot_shapes, shapes_page

    if plot:
        need_matplotlib(plot)
    every, choice = rest.pop("all"), Choice(**rest)
    if recorded and (sweeps or contenders or keep_cache or choice != Choice()):
        raise UsageError("--recorded shows a run as it was: leave out what says how to run")
    if recorded:
        from msgspec import json

        from foretrace.read import recordings
        from foretrace.schema.documents.shapes import ShapesDocument

        content = recordings.shapes_run(rung, recorded).read_bytes()
        document = json.decode(content, type=ShapesDocument)
    else:
        document = _measured(rung, sweeps, contenders, choice, keep_cache)
    if plot:
        plot_shapes(document, plot)
    everything = every or form == "markdown"
    use.answer_in_sections(form, document, lambda: shapes_page(document, every=everything))


def _measured(
    rung: str, sweeps: tuple[str, ...], contenders: str, choice: Choice, keep_cache: bool
) -> ShapesDocument:
    from foretrace.learn.ladder import rung as find
    from foretrace.record.profiling import need_torch

    need_torch()
    from foretrace.record.experiments.shapes import shapes
    from foretrace.record.experiments.user_code import as_rung

    names = [name.strip() for name in contenders.split(",") if name.strip()]
    if ":" in rung:
        if choice.small or choice.dtype != "auto":
            raise UsageError("--small and --dtype are only for rungs: your own code decides")
        choice = replace(choice, dtype="its own dtype")
    with redirect_stdout(sys.stderr):  # what their code prints is no part of the answer
        subject = as_rung(rung) if ":" in rung else find(rung)
        return shapes(subject, sweeps, names, choice, keep_cache, use.say)
