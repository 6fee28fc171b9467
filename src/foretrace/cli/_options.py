"""Options, argument types and small checks that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from foretrace.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
# The shell completes file names; nothing is checked, so that `-` and `ARCHIVE.zip::MEMBER` pass.
PATH = click.Path(readable=False)


def opens_trace(command: F) -> F:
    """`--no-cache`, `--strict` and `--limit`: every command that opens a trace takes them."""
    for option in (
        click.option(
            "--limit",
            "limit",
            multiple=True,
            metavar="NAME=NUMBER",
            help="Raise a limit against hostile files: bytes, ratio, events, depth, string, args, "
            "event, members (see: foretrace docs look; the --limit of foretrace record is another, "
            "in seconds).",
        ),
        click.option(
            "--strict", is_flag=True, help="Exit 1 when anything was repaired, skipped or odd."
        ),
        click.option("--no-cache", is_flag=True, help="Neither use nor write the cache."),
    ):
        command = option(command)
    return command


def as_json(command: F) -> F:
    """`--json`: every command that answers a question takes it."""
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else."
    )(command)


def builds_rung(note: str = "") -> Callable[[F], F]:
    """`--device`, `--dtype`, `--small` and `--seed`; their help starts with `note`."""
    from foretrace.schema.rung import DTYPES  # not for the commands that only read

    def shown(*names: str, **options: Any) -> Callable[[F], F]:
        return click.option(*names, show_default=True, **options)

    def with_options(command: F) -> F:
        auto_dtype, auto_device = "auto: bf16, or fp32 on a CPU without it.", "auto: a GPU if any."
        dtypes, devices = click.Choice(DTYPES), click.Choice(("auto", "cpu", "cuda"))
        for option in (
            shown("--seed", type=int, default=0, help=f"{note}Seed of weights and inputs."),
            click.option("--small", is_flag=True, help=f"{note}Small sizes where none are given."),
            shown("--dtype", type=dtypes, default="auto", help=note + auto_dtype),
            shown("--device", type=devices, default="auto", help=note + auto_device),
        ):
            command = option(command)
        return command

    return with_options


def rung_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The rungs that the shell may complete."""
    from foretrace.ladder import rungs

    return [rung.name for rung in rungs() if rung.name.startswith(incomplete)]


def one_form(as_json: bool, markdown: bool) -> None:
    """Refuse two output forms at once."""
    if as_json and markdown:
        raise UsageError("choose one of --json and --markdown")


def say(text: str) -> None:
    """Print progress on stderr."""
    click.echo(f"foretrace: {text}", err=True)


def new_file(path: str, *, overwrite: bool) -> Path:
    """The file that a command may write; call it before the work, so that no work is lost."""
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{target} is a folder: give the name of a file")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists already: choose another name, or pass --overwrite")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: no folder {target.parent}: create it first, or choose another")
    return target


def shows_bold() -> bool:
    """Whether stdout is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
