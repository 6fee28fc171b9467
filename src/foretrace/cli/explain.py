"""Read: Explain a rule or a fix, with an example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.show.render.terminal import Section


@click.command("explain", epilog="See: foretrace docs findings")
@click.argument("names", nargs=-1, metavar="[RULE]...")
@use.in_forms
def command(names: tuple[str, ...], form: str) -> None:
    """Explain a rule or a fix, with what it finds in a recording that ships with foretrace.

    Without a name, list every rule and fix. On a trace of your own: look TRACE --explain RULE.

    \b
    foretrace explain sync_stalls
    foretrace explain cuda_graph --json
    """
    from foretrace.show.overview.manuals import manual

    found = manual(names)

    def drawn() -> list[Section]:
        from foretrace.show.render.explain_page import page

        return page(found, listed=not names)

    use.answer_in_sections(form, found, drawn)
