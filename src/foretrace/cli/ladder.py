"""Record and measure: Run every rung and check the articles' claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from foretrace.cli._options import as_json, one_form, rung_names, say

if TYPE_CHECKING:
    from foretrace.ladder._whole import Climb


@click.command("ladder", epilog="See: foretrace docs ladder")
@click.option(
    "--recorded",
    metavar="CARD",
    help="Climb the traces inside the package instead (h200): no torch, no GPU.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="RUNG",
    shell_complete=rung_names,
    help="This rung alone; may be repeated.",
)
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    help="Where to climb; the GPU where there is one.",
)
@click.option("--keep", metavar="DIR", help="Keep the traces and run records of the climb there.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As a page of Markdown.")
@click.option("--strict", is_flag=True, help="Exit 1 when a claim does not hold.")
@click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    help="As everywhere; a climb never uses the cache.",
)
@as_json
def command(
    recorded: str | None,
    only: tuple[str, ...],
    device: str | None,
    keep: str | None,
    as_markdown: bool,
    strict: bool,
    as_json: bool,
) -> int:
    """Climb every rung of the ladder and mark what the articles claim about it.

    \b
    foretrace ladder                        on this machine: the GPU if there is one, else the CPU
    at small sizes
    foretrace ladder --recorded h200        on the traces inside the package
    foretrace ladder --only mlp --keep t    one rung; its traces stay in t/

    A claim holds, does not hold (with what was measured, why it was said, why it missed and what is
    right), or cannot be told here. At the end stands the article's table: what changed with each
    setup and what stayed the same, from the measurements. docs/ladder.md tells more.
    """
    import json

    from foretrace.errors import UsageError
    from foretrace.render.climb import climb_markdown, climb_text

    if recorded and (keep or device):
        raise UsageError(
            "--keep and --device are for a climb on this machine: leave them out with --recorded"
        )
    one_form(as_json, as_markdown)
    document = (
        _recorded(recorded, only) if recorded else _here(only, device or "auto", keep)
    ).document()
    click.echo(
        json.dumps(document, ensure_ascii=False, indent=1)
        if as_json
        else climb_markdown(document)
        if as_markdown
        else climb_text(document)
    )
    return 1 if strict and document["counts"]["miss"] else 0


def _recorded(card: str, only: tuple[str, ...]) -> Climb:
    from foretrace.ladder import climb_recorded

    return climb_recorded(card, only)


def _here(only: tuple[str, ...], device: str, keep: str | None) -> Climb:
    import tempfile
    from contextlib import nullcontext
    from pathlib import Path

    from foretrace.ladder import climb_here

    place: Any = (
        nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="foretrace-ladder-")
    )
    with place as folder:
        return climb_here(Path(folder), device, only, say)
