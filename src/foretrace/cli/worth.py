"""Record and measure: Measure whether torch.compile pays off for your code."""

from __future__ import annotations

import json
from typing import Any

import click

from foretrace.cli._options import as_json, builds_rung, one_form, rung_names, say, shows_bold
from foretrace.schema.rung import MODES, Choice


@click.command("worth", epilog="See: foretrace docs worth")
@click.argument("subject", shell_complete=rung_names)
@click.option(
    "--mode",
    "modes",
    type=click.Choice(MODES),
    multiple=True,
    default=("default",),
    show_default=True,
    help="A mode of torch.compile; may be repeated.",
)
@click.option(
    "--shapes",
    default="",
    metavar="8x128,16x128",
    help="For your own callable: it is called with the numbers of each shape, in this order.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=A,B,C",
    help="For a rung: values of one of its sizes; may be repeated, the last one changes fastest.",
)
@builds_rung("For a rung. ")
@click.option(
    "--keep-compiler-cache",
    "keep_cache",
    is_flag=True,
    help=(
        "Use your own Inductor cache; an empty one is the default, since a filled one hides the "
        "cost."
    ),
)
@click.option("--keep", metavar="DIR", help="Keep the traces and run records there.")
@click.option("--markdown", is_flag=True, help="Markdown instead of terminal tables.")
@as_json
def command(
    subject: str,
    modes: tuple[str, ...],
    shapes: str,
    sweeps: tuple[str, ...],
    keep_cache: bool,
    keep: str | None,
    markdown: bool,
    as_json: bool,
    **choice: Any,
) -> None:
    """Say whether torch.compile is worth it for SUBJECT, and after how many calls.

    SUBJECT is a rung (`mlp`), or your own code: `module:callable`, `path/to/file.py:callable`. The
    callable returns what to compile and its inputs, `(model, (x,))`; with --shapes it is called
    with the numbers of each shape.

    \b
    foretrace worth bench.py:setup
    foretrace worth bench.py:setup --shapes 8x128,16x128 --mode default --mode max-autotune
    foretrace worth mlp --sweep batch=8,16,64
    foretrace worth mlp --small --markdown

    Eager and compiled calls are timed in turns without a profiler; a difference inside the noise is
    no verdict. docs/worth.md tells more.
    """
    import contextlib
    import sys
    import tempfile
    from pathlib import Path

    from foretrace.ladder import worth
    from foretrace.render.worth import worth_markdown, worth_text

    one_form(as_json, markdown)
    place: Any = (
        contextlib.nullcontext(keep)
        if keep
        else tempfile.TemporaryDirectory(prefix="foretrace-worth-")
    )
    # What their code prints is no part of the answer.
    with place as folder, contextlib.redirect_stdout(sys.stderr):
        found = worth(
            subject,
            Path(folder),
            tuple(dict.fromkeys(modes)),
            sweeps,
            shapes,
            Choice(**choice),
            keep_cache,
            say,
        )
    document = found.document()
    click.echo(
        json.dumps(document, ensure_ascii=False, indent=1)
        if as_json
        else worth_markdown(document)
        if markdown
        else worth_text(document, bold=shows_bold())
    )
