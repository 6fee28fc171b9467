"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def opens_trace(command: F) -> F:
    """`--no-cache`, `--strict` and `--limit`: every command that opens a trace takes them."""
    for option in (
        click.option(
            "--limit",
            "limit",
            multiple=True,
            metavar="NAME=NUMBER",
            help="Raise a limit against hostile files: bytes, ratio, events, depth, string, args, event, members.",
        ),
        click.option("--strict", is_flag=True, help="Exit 1 when anything was mended, skipped or odd."),
        click.option("--no-cache", is_flag=True, help="Neither use nor write the cache."),
    ):
        command = option(command)
    return command


def as_json(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else.")(command)


def lost_data(document: dict[str, Any]) -> bool:
    """Whether `--strict` must fail on this document."""
    ledger = document["ledger"]
    return bool(ledger["repaired"] or ledger["skipped"] or any(note["severity"] != "info" for note in ledger["notes"]))


def shows_bold() -> bool:
    """Whether stdout is a terminal whose owner has not asked for plain text (NO_COLOR)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
