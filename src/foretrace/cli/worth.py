"""Record and measure: Measure whether torch.compile pays off for your code."""

from __future__ import annotations

from typing import Any

import click

from foretrace.cli import _options as use
from foretrace.cli.run import BEFORE_SCRIPT, trying_options

# the fix of `foretrace try` that compiles in each mode
FIXES = {
    "default": "compile",
    "reduce-overhead": "compile_reduce_overhead",
    "max-autotune-no-cudagraphs": "compile_max_autotune",
}


@click.command("worth", epilog="See: foretrace docs try", context_settings=BEFORE_SCRIPT)
@use.shown(
    "--mode",
    "A mode of torch.compile; may be repeated.",
    to="modes",
    type=click.Choice(list(FIXES)),
    multiple=True,
    default=("default",),
)
@trying_options
@use.form_options
@click.pass_context
def command(context: click.Context, /, modes: tuple[str, ...], **given: Any) -> Any:
    """Measure whether torch.compile is worth it for SCRIPT, and after how many steps.

    This is `foretrace try --only compile`. SCRIPT may be a function, `file.py:function`, that
    returns a callable and its inputs; whole numbers after it are its arguments.

    \b
    foretrace worth train.py
    foretrace worth bench.py:setup
    foretrace worth --mode default --mode reduce-overhead bench.py:setup 16 128
    """
    every = context.find_root().command
    assert isinstance(every, click.Group)
    attempt = every.get_command(context, "try")
    assert attempt is not None
    return context.invoke(attempt, only=tuple(FIXES[mode] for mode in modes), **given)
