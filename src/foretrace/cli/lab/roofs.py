"""Measure what this GPU or CPU can do at most."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.cli import _options as use


@click.command("roofs", epilog="See: foretrace docs roofs")
@use.option("--device", "Default: the GPU, where there is one.", type=click.Choice(("cuda", "cpu")))
@use.option(
    "--show [NAME|FILE]",
    "Measure nothing: show figures of this machine, of a device (`h200` ships) or a file.",
    is_flag=False,
    flag_value="",
)
@use.option(
    "-o --output",
    "Write the figures to this file, and not where `look` finds them.",
    type=click.Path(path_type=Path, dir_okay=False),
)
@use.flag("--all", "Every working set and every figure.")
@use.in_tables
def command(
    device: str | None,
    show: str | None,
    output: Path | None,
    form: str,
    **rest: bool,
) -> None:
    """Measure memory by working set, matmuls and tensor cores of this machine.

    \b
    foretrace lab roofs                  about half a minute; `look` then prefers these figures
    foretrace lab roofs --show           the figures of this machine, measured before
    foretrace lab roofs --show h200      what an H200 was measured to do
    foretrace lab roofs -o my.json       into a file
    foretrace lab roofs --device cpu     caches, memory and matmuls of the CPU

    Each figure is the median of several runs on random data (on a CPU, which others use as well,
    the fastest). What cannot be measured here is listed with the reason.
    """
    from foretrace.look.roofs_lines import page
    from foretrace.work import devices

    if show is not None:
        document, place = devices.shown_roofs(show), None
    else:
        from foretrace.record.profiling import need_torch

        need_torch()
        from foretrace.record.experiments.roofs import roofs

        document = roofs(device, use.say)
        place = devices.save_roofs(document, output)
    every, wrote = rest["all"] or form == "markdown", place if form == "text" else None
    use.answer_in_tables(form, document, lambda: page(document, wrote, every=every))
