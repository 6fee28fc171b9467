"""Read: Show what ran on the GPU, what it cost and what could be saved."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from foretrace.cli._options import PATH, as_json, one_form, opens_trace, shows_bold

if TYPE_CHECKING:
    from msgspec import Struct

    from foretrace.render.section import Section
    from foretrace.sources.folder import FolderContents
    from foretrace.sources.limits import Limits

    # the document, what draws it, and whether --strict must fail
    Answer = tuple[Struct, Callable[[], list[Section]], bool]


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
    """Show what ran on the GPU, which ops launched it, what it cost, and possible savings.

    Opens with a short summary. Then lists what each region launches, in launch order, the steps,
    kernels and host ops, the findings of the rules (`foretrace docs findings`), and what was read.

    TRACE is a file, a folder or zip, ARCHIVE.zip::MEMBER, or - for stdin. A folder or zip that
    holds several traces gives an overview: a row for each, how far its ranks differ, and which
    files cannot be read.
    """
    from foretrace.schema.documents import encode
    from foretrace.sources.folder import searched
    from foretrace.sources.limits import parse_limits

    one_form(as_json, markdown)
    limits = parse_limits(limit)
    inside = searched(trace, limits)
    if inside is not None and len(inside.traces) > 1:
        document, page, odd = _look_set(trace, inside, limits, not no_cache)
    else:
        document, page, odd = _look(trace, inside, limits, not no_cache, top)
    if as_json:
        click.echo(encode(document))
    else:
        from foretrace.render.section import drawn, marked

        click.echo(marked(page()) if markdown else drawn(page(), bold=shows_bold()))
    return 1 if strict and odd else 0


def _look(
    trace: str, inside: FolderContents | None, limits: Limits, cache: bool, top: int
) -> Answer:
    """One trace; files beside it that cannot be read are odd."""
    from foretrace.overview.reading import overview_of

    with _uncollected():
        found = overview_of(trace, cache=cache, limits=limits)
    left_out = [str(problem) for _, problem in inside.files if problem] if inside else []
    _warn(left_out)

    def page() -> list[Section]:
        from foretrace.render.look_page import sections

        return sections(found, top)

    return found.look, page, bool(left_out) or found.look.ledger.lost_data


def _warn(left_out: list[str]) -> None:
    """The document of the one trace in a folder has no place for unreadable files beside it."""
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


def _look_set(trace: str, inside: FolderContents, limits: Limits, cache: bool) -> Answer:
    from foretrace.opening import shown
    from foretrace.overview.sets import look_set

    found = look_set(trace, inside, limits, cache=cache, progress=_progress)

    def page() -> list[Section]:
        from foretrace.render.set_page import sections

        return sections(shown(trace), found)

    odd = any(note.severity != "info" for note in found.notes)
    lost = any(look.ledger.lost_data for look in found.traces)
    return found, page, bool(found.left_out) or odd or lost


def _progress(done: int, every: int, last: str) -> None:
    if sys.stderr.isatty():
        text = f"read {done} of {every}: {ascii(last)[1:-1]}" if done < every else ""
        click.echo(f"\r\x1b[K{text}", err=True, nl=False)
