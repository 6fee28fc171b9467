"""Options, argument types and small checks that several commands share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from foretrace.base.errors import UsageError

if TYPE_CHECKING:
    from foretrace.base.budget import Limits
    from foretrace.model.trace import Trace
    from foretrace.schema.run_record import RecordedRun

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class TracePath(click.Path):
    """A path, or the short name of a recording that ships with foretrace (`mlp_eager`).

    The shell completes file names. Nothing is checked, so that `-` and `ARCHIVE.zip::MEMBER` pass.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Replace a short name by the path of the recording; a file of that name comes first."""
        from foretrace.read.recordings import opened_as

        return super().convert(opened_as(os.fsdecode(value)), param, ctx)


PATH = TracePath(readable=False)
DEVICES = click.Choice(("auto", "cpu", "cuda"))


def flag(name: str, text: str) -> Decorator:
    """An option without a value."""
    return click.option(name, is_flag=True, help=text)


def shown(*names: str, **options: Any) -> Decorator:
    """An option whose help names its default."""
    return click.option(*names, show_default=True, **options)


def joined(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class Reading(NamedTuple):
    """How a command opens traces: what `--no-cache`, `--strict` and `--limit` say."""

    cache: bool
    strict: bool
    limits: Limits

    def trace(self, path: str, captures: str | None = None) -> Trace:
        """Open one trace."""
        from foretrace.model import opening

        return opening.open(path, cache=self.cache, limits=self.limits, captures=captures)

    def fails(self, *traces: Trace | None) -> bool:
        """Whether `--strict` was given and one of the traces lost data."""
        return self.strict and any(trace.ledger.lost_data for trace in traces if trace is not None)


def opens_trace(command: Command) -> Command:
    """`--no-cache`, `--strict` and `--limit`; the command takes them as one `reading`."""

    @wraps(command)
    def opening(no_cache: bool, strict: bool, limit: tuple[str, ...], **given: Any) -> Any:
        from foretrace.base.budget import ceiling, parse_limits, timed
        from foretrace.cli._progress import on_terminal

        limits = parse_limits(limit)
        with on_terminal(), timed(), ceiling("", limits):
            return command(reading=Reading(not no_cache, strict, limits), **given)

    limits = (
        "Set a limit on what a file may hold or take: bytes, ratio, events, depth, string, args, "
        "event, members, seconds, memory. `foretrace docs look` has the defaults."
    )
    return joined(
        flag("--no-cache", "Neither use nor write the cache."),
        flag("--strict", "Exit 1 when anything was repaired, skipped or odd."),
        click.option("--limit", multiple=True, metavar="NAME=NUMBER", help=limits),
    )(opening)


as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else."
)


def in_forms(command: Command) -> Command:
    """`--json` and `--markdown`; the command takes one `form`: json, markdown or text."""

    @wraps(command)
    def with_form(as_json: bool, markdown: bool, **given: Any) -> Any:
        if as_json and markdown:
            raise UsageError("choose one of --json and --markdown")
        return command(form="json" if as_json else "markdown" if markdown else "text", **given)

    return joined(as_json, flag("--markdown", "Markdown instead of plain text."))(with_form)


def builds_rung(note: str = "") -> Decorator:
    """`--device`, `--dtype`, `--small` and `--seed`; their help starts with `note`."""
    from foretrace.schema.rung import DTYPES  # not for the commands that only read

    auto_dtype, auto_device = "auto: bf16, or fp32 on a CPU without it.", "auto: a GPU if any."
    return joined(
        shown("--device", type=DEVICES, default="auto", help=note + auto_device),
        shown("--dtype", type=click.Choice(DTYPES), default="auto", help=note + auto_dtype),
        flag("--small", f"{note}Small sizes where none are given."),
        shown("--seed", type=int, default=0, help=f"{note}Seed of weights and inputs."),
    )


def sweeps_rung(note: str = "") -> Decorator:
    """`--sweep` and `--keep-compiler-cache` around the options of `builds_rung`."""
    text = "Values of one size of the rung; may be repeated, the last one changes fastest."
    kept = "Use your own Inductor cache instead of an empty one. A filled cache hides the cost."
    return joined(
        click.option(
            "--sweep", "sweeps", multiple=True, metavar="NAME=A,B,C", help=f"{note}{text}"
        ),
        builds_rung(note),
        click.option("--keep-compiler-cache", "keep_cache", is_flag=True, help=kept),
    )


def rung_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The rungs that the shell may complete."""
    from foretrace.learn.ladder import rungs

    return [rung.name for rung in rungs() if rung.name.startswith(incomplete)]


def say(text: str) -> None:
    """Print progress on stderr."""
    click.echo(f"foretrace: {text}", err=True)


def warn_of_loss(*traces: Trace | None) -> None:
    """Print one line for each trace whose ledger holds a note that every answer must show.

    An entry of the run record beside it that is not valid is one of these.
    """
    from foretrace.base.units import count_text
    from foretrace.show.render.terminal import plain

    for trace in traces:
        if trace is not None and (banner := trace.ledger.banner):
            notes = [f"{note.code} ({count_text(note.count)}): {note.text}" for note in banner]
            say(plain(f"warning: {trace.path}: {'; '.join(notes)}"))
        if trace is not None:
            warn_of_record(trace.path, trace.run)


def warn_of_record(path: str, run: RecordedRun) -> None:
    """Print one line where an entry of the run record beside a trace is not valid."""
    from foretrace.show.render.terminal import plain

    if run.ignored:
        say(plain(f"warning: {path}: its run record has no valid {', '.join(run.ignored)}"))


def new_file(path: str, *, overwrite: bool) -> Path:
    """The file that a command may write; call it before the work, so that no work is lost."""
    target = Path(path)
    if target.is_dir():
        raise UsageError(f"{target} is a folder: give the name of a file")
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{target} exists already: choose another name, or pass --overwrite")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: no folder {target.parent}: create it first, or choose another")
    return target


def shows_bold() -> bool:
    """Whether stdout is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def width() -> int:
    """Columns of the terminal, or 100 where the output goes elsewhere; never below 80."""
    return min(max(shutil.get_terminal_size((100, 25)).columns, 80), 200)
