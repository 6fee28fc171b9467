"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from foretrace.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def opens_trace(command: F) -> F:
    """`--no-cache`, `--strict` and `--limit`: every command that opens a trace takes them."""
    for option in (
        click.option(
            "--limit",
            "limit",
            multiple=True,
            metavar="NAME=NUMBER",
            help="Raise a limit against hostile files: bytes, ratio, events, depth, string, args, "
            "event, members "
            "(docs/look.md; the --limit of foretrace record is another, in seconds).",
        ),
        click.option(
            "--strict", is_flag=True, help="Exit 1 when anything was mended, skipped or odd."
        ),
        click.option("--no-cache", is_flag=True, help="Neither use nor write the cache."),
    ):
        command = option(command)
    return command


def as_json(command: F) -> F:
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else."
    )(command)


def builds_rung(note: str = "") -> Callable[[F], F]:
    """`--device`, `--dtype`, `--small` and `--seed`: every command that builds a rung takes them;
    `note` begins their help.
    """
    from foretrace.schema.rung import DTYPES  # not for the commands that only read

    def with_options(command: F) -> F:
        for option in (
            click.option(
                "--seed",
                type=int,
                default=0,
                show_default=True,
                help=f"{note}Seed of weights and inputs.",
            ),
            click.option("--small", is_flag=True, help=f"{note}Small sizes where none are given."),
            click.option(
                "--dtype",
                type=click.Choice(DTYPES),
                default="auto",
                show_default=True,
                help=f"{note}auto: bf16, or fp32 on a CPU without it.",
            ),
            click.option(
                "--device",
                type=click.Choice(("auto", "cpu", "cuda")),
                default="auto",
                show_default=True,
                help=f"{note}auto: a GPU when there is one.",
            ),
        ):
            command = option(command)
        return command

    return with_options


def one_form(as_json: bool, markdown: bool) -> None:
    """Refuse two forms at once: one of them would be left out in silence."""
    if as_json and markdown:
        raise UsageError("choose one of --json and --markdown")


def say(text: str) -> None:
    """Progress goes to stderr."""
    click.echo(f"foretrace: {text}", err=True)


def new_file(path: str, *, overwrite: bool) -> Path:
    """Where a command may write; asked before any work is done, so that nothing is worked out in
    vain.
    """
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{target} is a folder: give the name of a file")
    if target.exists() and not overwrite:
        raise UsageError(f"{target} is there already: choose another name, or pass --overwrite")
    if not target.parent.is_dir():
        raise UsageError(
            f"{target}: there is no folder {target.parent}: make it first, or choose another"
        )
    return target


def shows_bold() -> bool:
    """Whether stdout is a terminal whose owner has not asked for plain text (NO_COLOR)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
