"""Explain a rule or a fix, with an example."""

from __future__ import annotations

import click

from foretrace.cli import _options as use


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
    from foretrace.show.render.fixes_page import manual, manual_page

    found = manual(names)
    use.answer_in_sections(form, found, lambda: manual_page(found, listed=not names))
