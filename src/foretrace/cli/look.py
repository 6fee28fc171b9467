"""`foretrace look`."""

from __future__ import annotations

import click

from ._options import as_json, opens_trace


@click.command("look")
@click.argument("trace")
@as_json
@click.option("--markdown", is_flag=True, help="Markdown instead of a terminal table.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(min=0), help="How many kernels and ops to list.")
@opens_trace
def command(trace: str, as_json: bool, markdown: bool, top: int, no_cache: bool, strict: bool, limit: tuple[str, ...]) -> int:
    """Say what ran on the GPU, who asked for it, what it cost, and what could be saved.

    Opens with a short story, then lists what each region runs in launch order, the steps, kernels and host ops, what the
    rules found (docs/findings.md), and what reading the file cost.

    TRACE is a file, a folder or zip that holds one, ARCHIVE.zip::MEMBER, or - for stdin.
    """
    import json

    from ..errors import UsageError
    from ..opening import look_document
    from ..sources.limits import parse_limits
    from ._options import lost_data, shows_bold

    if as_json and markdown:
        raise UsageError("choose one of --json and --markdown")
    document = look_document(trace, cache=not no_cache, limits=parse_limits(limit))
    if as_json:
        click.echo(json.dumps(document["look"], ensure_ascii=False, allow_nan=False))
    elif markdown:
        from ..render.markdown import look_text as look_markdown

        click.echo(look_markdown(document, top))
    else:
        from ..render.terminal import look_text

        click.echo(look_text(document, top, bold=shows_bold()))
    return 1 if strict and lost_data(document["look"]) else 0
