"""Measure kernels and this machine, and repeat the articles."""

from __future__ import annotations

import click

from foretrace.cli import Commands
from foretrace.cli import _options as use

DEVICES = click.Choice(("auto", "cpu", "cuda"))


@click.command("lab", cls=Commands, package=__name__, epilog="See: foretrace docs ladder")
def command() -> None:
    """Measure kernels and this machine, and repeat the articles."""


def builds_rung() -> use.Decorator:
    """`--device`, `--dtype`, `--small` and `--seed`."""
    from foretrace.record.rung import DTYPES  # not for the commands that only read

    types = click.Choice(DTYPES)
    return use.joined(
        use.shown("--device", "auto: a GPU if any.", type=DEVICES, default="auto"),
        use.shown(
            "--dtype", "auto: bf16, or fp32 on a CPU without it.", type=types, default="auto"
        ),
        use.flag("--small", "Small sizes where none are given."),
        use.shown("--seed", "Seed of weights and inputs.", type=int, default=0),
    )


def rung_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The rungs that the shell may complete."""
    from foretrace.learn.ladder import rungs

    return [rung.name for rung in rungs() if rung.name.startswith(incomplete)]
