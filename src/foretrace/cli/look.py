"""Read: Show what ran on the GPU, what it cost and what could be saved."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from foretrace.cli._options import PATH, Reading, in_forms, opens_trace, say, shown, shows_bold

if TYPE_CHECKING:
    from msgspec import Struct

    from foretrace.render.section import Section
    from foretrace.sources.folder import FolderContents

    # the document, what draws it, and whether --strict must fail
    Answer = tuple[Struct, Callable[[], list[Section]], bool]


@click.command("look", epilog="See: foretrace docs look")
@click.argument("trace", type=PATH)
@in_forms
@shown("--top", default=20, type=click.IntRange(0), help="How many kernels and ops to list.")
@opens_trace
def command(trace: str, form: str, top: int, reading: Reading) -> int:
    """Show what ran on the GPU, which ops launched it, what it cost, and possible savings.

    Opens with a short summary. Then lists what each region launches, in launch order, the steps,
    kernels and host ops, the findings of the rules, and what was read.

    TRACE is a file, a folder or zip, ARCHIVE.zip::MEMBER, or - for stdin. A folder or zip that
    holds several traces gives an overview: a row for each, how far its ranks differ, and which
    files cannot be read.
    """
    from foretrace.schema.documents import encode
    from foretrace.sources.folder import searched

    inside = searched(trace, reading.limits)
    if inside is not None and len(inside.traces) > 1:
        document, page, odd = _look_set(trace, inside, reading)
    else:
        document, page, odd = _look(trace, inside, reading, top)
    if form == "json":
        click.echo(encode(document))
    else:
        from foretrace.render.section import drawn, marked

        click.echo(marked(page()) if form == "markdown" else drawn(page(), bold=shows_bold()))
    return 1 if reading.strict and odd else 0


def _look(trace: str, inside: FolderContents | None, reading: Reading, top: int) -> Answer:
    """One trace; files beside it that cannot be read are odd."""
    from foretrace.overview.reading import overview_of
    from foretrace.render.safe import plain

    gc.disable()  # loading hundreds of modules sets it off for nothing: 5% of a small trace's time
    try:
        found = overview_of(trace, cache=reading.cache, limits=reading.limits)
    finally:
        gc.enable()
    left_out = [str(problem) for _, problem in inside.files if problem] if inside else []
    if left_out:  # the document of one trace has no place for unreadable files beside it
        more = f" (and {len(left_out) - 1:,} more)" if len(left_out) > 1 else ""
        say(plain(f"warning: left out: {left_out[0]}{more}"))

    def page() -> list[Section]:
        from foretrace.render.look_page import sections

        return sections(found, top)

    return found.look, page, bool(left_out) or found.look.ledger.lost_data


def _look_set(trace: str, inside: FolderContents, reading: Reading) -> Answer:
    from foretrace.opening import shown
    from foretrace.overview.sets import look_set

    found = look_set(trace, inside, reading.limits, cache=reading.cache, progress=_progress)

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
