"""Read: Show what ran on the GPU, what it cost and what could be saved."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from foretrace.cli._options import PATH, as_json, lost_data, one_form, opens_trace, shows_bold

if TYPE_CHECKING:
    from foretrace.look_set import Overview


@click.command("look", epilog="See: foretrace docs look")
@click.argument("trace", type=PATH)
@as_json
@click.option("--markdown", is_flag=True, help="Markdown instead of a terminal table.")
@click.option(
    "--top",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="How many kernels and ops to list.",
)
@opens_trace
def command(
    trace: str,
    as_json: bool,
    markdown: bool,
    top: int,
    no_cache: bool,
    strict: bool,
    limit: tuple[str, ...],
) -> int:
    """Say what ran on the GPU, who asked for it, what it cost, and what could be saved.

    Opens with a short story, then lists what each region runs in launch order, the steps, kernels
    and host ops, what the rules found (docs/findings.md), and what reading the file cost.

    TRACE is a file, a folder or zip, ARCHIVE.zip::MEMBER, or - for stdin. A folder or zip that
    holds several traces gives an overview: a row for each, how far its ranks lie apart, and which
    files are no traces.
    """
    from foretrace.opening import look_document
    from foretrace.sources.folder import searched
    from foretrace.sources.limits import parse_limits

    one_form(as_json, markdown)
    limits = parse_limits(limit)
    inside = searched(trace, limits)
    if inside is not None and len(inside.traces) > 1:
        from foretrace.look_set import overview

        return _show(
            overview(trace, inside, limits, cache=not no_cache, tell=_progress),
            as_json,
            markdown,
            strict,
        )
    with _uncollected():
        document = look_document(trace, cache=not no_cache, limits=limits)
    left_out = (
        [str(problem) for _, problem in inside.files if problem] if inside is not None else []
    )
    _warn(left_out)
    if as_json:
        click.echo(json.dumps(document["look"], ensure_ascii=False, allow_nan=False))
    elif markdown:
        from foretrace.render.markdown import look_text as look_markdown

        click.echo(look_markdown(document, top))
    else:
        from foretrace.render.terminal import look_text

        click.echo(look_text(document, top, bold=shows_bold()))
    return 1 if strict and (left_out or lost_data(document["look"])) else 0


def _warn(left_out: list[str]) -> None:
    """The document of the one trace in a folder has no place for the files beside it that are none."""
    if left_out:
        from foretrace.render.safe import plain

        more = f" (and {len(left_out) - 1:,} more)" if len(left_out) > 1 else ""
        click.echo(plain(f"foretrace: warning: left out: {left_out[0]}{more}"), err=True)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Loading some hundred modules sets off the collector again and again for nothing: 5% of a look
    at a small trace.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _show(overview: Overview, as_json: bool, markdown: bool, strict: bool) -> int:
    if as_json:
        click.echo(json.dumps(overview.document(), ensure_ascii=False, allow_nan=False))
    else:
        from foretrace.render.section import drawn, marked
        from foretrace.render.set_page import sections

        page = sections(overview)
        click.echo(marked(page) if markdown else drawn(page, bold=shows_bold()))
    odd = (
        overview.left_out
        or any(note.severity != "info" for note in overview.notes)
        or any(map(lost_data, overview.looks))
    )
    return 1 if strict and odd else 0


def _progress(done: int, every: int, what: str) -> None:
    if sys.stderr.isatty():
        click.echo(
            "\r\x1b[K" + (f"read {done} of {every}: {ascii(what)[1:-1]}" if done < every else ""),
            err=True,
            nl=False,
        )
