"""Record and measure: Measure whether torch.compile pays off for your code."""

from __future__ import annotations

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
    help="Use your own Inductor cache instead of an empty one. A filled cache hides the cost.",
)
@click.option("--keep", metavar="DIR", help="Keep the traces and run records in this folder.")
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
    **options: Any,
) -> None:
    """Measure whether torch.compile is worth it for SUBJECT, and after how many calls.

    SUBJECT is a rung (`mlp`), or your own code: `module:callable`, `path/to/file.py:callable`. The
    callable returns what to compile and its inputs, `(model, (x,))`; with --shapes it is called
    with the numbers of each shape.

    \b
    foretrace worth bench.py:setup
    foretrace worth bench.py:setup --shapes 8x128,16x128 --mode default --mode max-autotune
    foretrace worth mlp --sweep batch=8,16,64
    foretrace worth mlp --small --markdown

    Eager and compiled calls are timed in turns without a profiler. A difference within the noise
    is inconclusive.
    """
    import sys
    import tempfile
    from contextlib import nullcontext, redirect_stdout
    from pathlib import Path

    from foretrace.profiling import need_torch
    from foretrace.render.worth import worth_markdown, worth_text
    from foretrace.schema.documents import encode

    one_form(as_json, markdown)
    need_torch()
    from foretrace.experiments.worth import worth

    tried, choice = tuple(dict.fromkeys(modes)), Choice(**options)
    temporary = tempfile.TemporaryDirectory(prefix="foretrace-worth-")
    # What the user's code prints is not part of the answer.
    with nullcontext(keep) if keep else temporary as folder, redirect_stdout(sys.stderr):
        document = worth(subject, Path(folder), tried, sweeps, shapes, choice, keep_cache, say)
    if as_json or markdown:
        click.echo(encode(document) if as_json else worth_markdown(document))
    else:
        click.echo(worth_text(document, bold=shows_bold()))
