"""Measure kernels and this machine, and repeat the articles."""

from __future__ import annotations

import click

from foretrace.cli import Commands


@click.command("lab", cls=Commands, package=__name__, epilog="See: foretrace docs ladder")
def command() -> None:
    """Measure kernels and this machine, and repeat the articles."""
