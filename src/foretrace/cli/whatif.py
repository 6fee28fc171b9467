"""Predict what a step takes after each fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foretrace.cli import _options as use

if TYPE_CHECKING:
    from foretrace.analyze.steering import Steering


@click.command("whatif", epilog="See: foretrace docs whatif")
@click.argument("trace", type=use.PATH)
@click.argument("fix", nargs=-1)
@use.in_forms
@use.flag("--explain", "The manual of each fix: what it looks for, what must hold, what changes.")
@use.steers
@use.opens_trace
def command(
    trace: str,
    fix: tuple[str, ...],
    form: str,
    explain: bool,
    reading: use.Reading,
    steering: Steering,
) -> int:
    """Replay one typical step with each fix that applies, and rank them by the predicted time.

    Times are without the profiler, with an interval. With the names of fixes, the step after all of
    them.

    \b
    foretrace whatif trace.json
    foretrace whatif trace.json boolean_mask cuda_graph
    foretrace whatif trace.json --explain
    """
    from foretrace.show.overview.predictions import whatif
    from foretrace.show.render.fixes_page import whatif_page

    opened = reading.trace(trace)
    use.warn_of_loss(opened)
    found = whatif(opened, fix, steering)
    use.answer_in_sections(form, found, lambda: whatif_page(found, explain=explain))
    return 1 if reading.fails(opened) else 0
