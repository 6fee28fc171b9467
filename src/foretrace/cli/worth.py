"""Record and measure: Measure whether torch.compile pays off for your code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from foretrace.base.errors import UsageError
from foretrace.cli._options import answer, in_forms, rung_names, say, shows_bold, sweeps_rung, width
from foretrace.schema.rung import MODES, Choice

if TYPE_CHECKING:
    from foretrace.record.experiments.worth import CompileSubject


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
@sweeps_rung("For a rung. ")
@click.option("--keep", metavar="DIR", help="Keep the traces and run records in this folder.")
@click.option(
    "--all", "everything", is_flag=True, help="Each mode, each shape, what changed, and notes."
)
@in_forms
def command(
    subject: str,
    modes: tuple[str, ...],
    shapes: str,
    sweeps: tuple[str, ...],
    keep_cache: bool,
    keep: str | None,
    everything: bool,
    form: str,
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
    from contextlib import nullcontext, redirect_stdout
    from pathlib import Path

    from foretrace.base.files import scratch
    from foretrace.record.profiling import need_torch
    from foretrace.show.render.experiments import worth_markdown, worth_text

    need_torch()
    from foretrace.record.experiments.worth import worth

    tried, choice = tuple(dict.fromkeys(modes)), Choice(**options)
    # What the user's code prints is not part of the answer.
    with (
        nullcontext(Path(keep)) if keep else scratch() as folder,
        redirect_stdout(sys.stderr),
    ):
        made = _subject(subject, sweeps, shapes, choice)
        document = worth(made, folder, tried, keep_cache, say)
    how = {"everything": everything, "width": width(), "bold": shows_bold()}
    answer(form, document, worth_text, worth_markdown, **how)


def _subject(subject: str, sweeps: tuple[str, ...], shapes: str, choice: Choice) -> CompileSubject:
    """What a rung or the user's own code builds at each shape."""
    from foretrace.learn.ladder import rung
    from foretrace.record.experiments.worth import code_subject, rung_subject

    if ":" not in subject:
        if shapes:
            message = "--shapes is only for your own module:callable"
            raise UsageError(f"{message}; for a rung use --sweep NAME=VALUE")
        return rung_subject(rung(subject), sweeps, choice)
    if sweeps or choice != Choice():
        message = "sizes, device, dtype and seed are only for rungs: your own code sets them"
        raise UsageError(f"{message}; --shapes passes it numbers")
    return code_subject(subject, shapes)
