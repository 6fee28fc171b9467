"""What commands share: options, checks, printing an answer, opening a page, progress."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from foretrace.base.errors import UsageError, report, show_with

if TYPE_CHECKING:
    from msgspec import Struct

    from foretrace.base.budget import Limits
    from foretrace.base.tables import Table
    from foretrace.jobs.documents import JobDocument
    from foretrace.jobs.whole_job import Job
    from foretrace.read.door import Opened
    from foretrace.read.run_record import RecordedRun
    from foretrace.trace.trace import Trace


_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


# of anything that `read.door` opens: nothing is checked, so that names, `-` and
# `ARCHIVE.zip::MEMBER` pass; the shell completes file names
PATH = click.Path(readable=False)


def option(names: str, text: str, to: str | None = None, **how: Any) -> Decorator:
    """An option: `-o --out FILE` are its names and what stands for its value; it sets `to`."""
    words = names.split()
    own = [word for word in words if word.startswith("-")]
    for metavar in words[len(own) :]:
        how["metavar"] = metavar
    return click.option(*own, *([to] if to else []), help=text, **how)


flag = partial(option, is_flag=True)
shown = partial(option, show_default=True)  # its help names the default


def joined(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@contextmanager
def lean() -> Iterator[None]:
    """Load modules and open a trace without what costs time and serves nothing: collecting garbage
    (5% of a small trace's time), and the threads of NumPy's linear algebra, which spin at first.
    """
    import gc

    chosen = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = chosen or "1"
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if not chosen:  # a script of the user's that runs later shall have them
            os.environ.pop(_BLAS_THREADS, None)


class Reading(NamedTuple):
    """How a command opens traces: what `--no-cache`, `--strict`, `--limit` and `--ray` say."""

    cache: bool
    strict: bool
    limits: Limits
    ray: str | None = None

    def opened(self, path: str, *kinds: type[Opened], by_name: bool = False) -> Opened:
        """What a path is, where the command takes it; else the error names the one that does."""
        from foretrace.read.door import open_any, refused

        found = open_any(path, self.limits, by_name=by_name)
        if not isinstance(found, kinds):
            raise refused(found)
        return found

    def trace(self, given: str | Opened, captures: str | None = None) -> Trace:
        """Open one trace."""
        from foretrace.read.door import TraceFile, TraceFolder, one_trace

        found = self.opened(given, TraceFile, TraceFolder) if isinstance(given, str) else given
        with lean():
            from foretrace.trace.opening import open_file

            return open_file(one_trace(found), self.limits, self.cache, captures)

    def is_job(self, given: Opened) -> bool:
        """Whether a path means several traces: a folder or zip of them, or a place in a store."""
        from foretrace.read.door import NamedFiles, TraceFolder

        several = isinstance(given, TraceFolder) and len(given.traces) > 1
        several = several or isinstance(given, NamedFiles)
        if self.ray is not None and not several:
            what = "is not a folder or zip of several traces"
            raise UsageError(f"--ray reads a job: {given.path} {what}")
        return several

    def job(self, given: Opened, ranks: str | None = None, steps: str | None = None) -> Job:
        """Open all ranks of a job; traces that nothing makes ranks of one job are refused."""
        from foretrace import jobs

        found = jobs.read(
            given, ranks=ranks, steps=steps, ray=self.ray, limits=self.limits, cache=self.cache
        )
        if found.separate:
            found.close()
            raise UsageError(
                f"{given.path}: {len(found.facts)} separate traces: no common job in their headers "
                "or names, and no collective. All in one table: foretrace look "
                f"{given.path}; two side by side: foretrace compare A B"
            )
        return found

    def fails(self, *traces: Trace | None) -> bool:
        """Whether `--strict` was given and one of the traces lost data."""
        return self.strict and any(trace.ledger.lost_data for trace in traces if trace is not None)


def opens_trace(command: Command) -> Command:
    """`--no-cache`, `--strict` and `--limit`; the command takes them as one `reading`."""

    @wraps(command)
    def opening(no_cache: bool, strict: bool, limit: tuple[str, ...], **given: Any) -> Any:
        from foretrace.base.budget import ceiling, parse_limits, timed

        limits = parse_limits(limit)
        with on_terminal(), timed(), ceiling("", limits):
            return command(reading=Reading(not no_cache, strict, limits), **given)

    return joined(
        flag("--no-cache", "Neither use nor write the cache."),
        flag("--strict", "Exit 1 when anything was repaired, skipped or odd."),
        option(  # the list of limits stands once, in the page
            "--limit NAME=NUMBER",
            "Another limit on what a file may hold or take (foretrace docs look).",
            multiple=True,
        ),
    )(opening)


def on_ray(command: Command) -> Command:
    """`--ray`, for commands that read jobs; below `opens_trace`, whose `reading` then has it."""

    @wraps(command)
    def reading_there(ray: str | None, reading: Reading, **given: Any) -> Any:
        return command(reading=reading._replace(ray=ray), **given)

    what = "Read a job on a Ray cluster; auto finds the running one."
    return option("--ray ADDRESS", what)(reading_there)


isolated = flag("--isolated", "Do not read [tool.foretrace] of pyproject.toml.")


def steers(command: Command) -> Command:
    """`--select`, `--ignore` and `--isolated`; the command takes one `steering`.

    A rule that `--select` names is shown even where the project's file ignores it.
    """

    @wraps(command)
    def steered(
        select: tuple[str, ...], ignore: tuple[str, ...], isolated: bool, **given: Any
    ) -> Any:
        from foretrace.cli._settings import settings
        from foretrace.look.steering import Steering, check_names

        wanted, unwanted = _split(select), _split(ignore)
        project = settings(isolated=isolated)
        check_names(wanted, "--select")
        check_names(unwanted, "--ignore")
        for key in ("select", "ignore"):
            check_names(getattr(project, key), project.place(key))
        kept = {name: why for name, why in project.ignore.items() if name not in wanted}
        chosen = Steering(tuple(wanted or project.select), kept | dict.fromkeys(unwanted, ""))
        return command(steering=chosen, **given)

    return joined(
        option("--select RULE,...", "Show these rules and fixes alone.", multiple=True),
        option("--ignore RULE,...", "Leave out these rules and fixes.", multiple=True),
        isolated,
    )(steered)


def out_folder(given: str | None) -> Path:
    """Where a command that records writes."""
    from foretrace.cli._settings import settings

    return Path(given) if given else settings().traces or Path("traces")


def project_traces() -> str:
    """The folder that the project's file names, for a command that was given none."""
    from foretrace.cli._settings import settings

    folder = settings().traces
    if folder is None:
        where = 'traces = "FOLDER" in [tool.foretrace] of pyproject.toml'
        raise UsageError(f"give the folder that holds the traces, or set {where}")
    return str(folder)


def _split(given: tuple[str, ...]) -> list[str]:
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


as_json = flag("--json", "One JSON document on stdout, and nothing else.", to="as_json")


_FORMS = {
    "json": as_json,
    "markdown": flag("--markdown", "Markdown instead of plain text."),
    "csv": flag("--csv", "The tables as CSV, with every row and plain numbers."),
}


def _with_form(*names: str) -> Decorator:
    """An option for each of these forms; the command takes one `form`, text without any."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_form(**given: Any) -> Any:
            keys = {name: "as_json" if name == "json" else name for name in names}
            chosen = [name for name, key in keys.items() if given.pop(key)]
            if len(chosen) > 1:
                raise UsageError(f"choose one of --{chosen[0]} and --{chosen[1]}")
            return command(form=(chosen or ["text"])[0], **given)

        return joined(*(_FORMS[name] for name in names))(with_form)

    return decorate


in_forms = _with_form("json", "markdown")
in_tables = _with_form("json", "markdown", "csv")  # of a command that prints tables


def answer(
    form: str, document: Struct, text: Callable[..., str], markdown: Callable[..., str], **how: Any
) -> None:
    """Print a document as JSON, as Markdown, or as text, which `how` describes."""
    from foretrace.base.tables import encode

    if form == "text":
        click.echo(text(document, **how))
    else:
        click.echo((encode if form == "json" else markdown)(document))


def answer_in_tables(form: str, document: Struct, page: Callable[[], list[Table]]) -> None:
    """Print a document as JSON, or its page as Markdown, as CSV or for the terminal."""
    from foretrace.base import tables

    def text(_: Struct) -> str:
        return tables.text(page(), bold=shows_bold(), width=width())

    if form == "csv":
        click.echo(tables.csv_text(page()), nl=False)
    else:
        answer(form, document, text, lambda _: tables.marked(page()))


def parts_page(
    page: Any, document: Any, wanted: dict[str, bool], top: int, every: Sequence[str]
) -> list[Table]:
    """The parts of a page that options name, or all of them; without any the first screen."""
    names = every if wanted["all"] else [name for name, on in wanted.items() if on]
    found: list[Table] = (
        page.sections(document, names, top) if names else page.first_screen(document, width())
    )
    return found


def complete_quantities(_: click.Context, __: click.Parameter, begin: str) -> list[str]:
    """The quantities of predictions for the shell, behind what was typed before the last word."""
    from foretrace.check.quantities import QUANTITIES

    word = re.split(r"[^\w.]", begin)[-1]
    before = begin.removesuffix(word)
    return [before + name for name in sorted(QUANTITIES) if name.startswith(word)]


def say(text: str) -> None:
    """Print progress on stderr."""
    click.echo(f"foretrace: {text}", err=True)


def warn_of_loss(*traces: Trace | None) -> None:
    """Print one line for each trace whose ledger holds a note that every answer must show.

    An entry of the run record beside it that is not valid is one of these.
    """
    from foretrace.base.terminal import plain
    from foretrace.base.units import count_text

    for trace in filter(None, traces):
        if banner := trace.ledger.banner:
            notes = [f"{note.code} ({count_text(note.count)}): {note.text}" for note in banner]
            say(plain(f"warning: {trace.path}: {'; '.join(notes)}"))
        warn_of_record(trace.path, trace.run)


def warn_of_record(path: str, run: RecordedRun) -> None:
    """Print one line where an entry of the run record beside a trace is not valid."""
    from foretrace.base.terminal import plain

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


def job_at(given: Opened, reading: Reading) -> JobDocument:
    """Read a job; what of it could not be read is said on stderr."""
    from foretrace.jobs.summary import summarize

    with reading.job(given) as job:
        found = summarize(job)
    warn_of_left_out([f"{each.path}: {each.text} [{each.code}]" for each in found.left_out])
    return found


def warn_of_left_out(files: Sequence[str]) -> None:
    """Name the first file that was left out, with its reason, and count the others."""
    from foretrace.base.terminal import plain

    for first in files[:1]:
        more = f" (and {len(files) - 1:,} more)" if len(files) > 1 else ""
        say(plain(f"warning: left out: {first}{more}"))


_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>foretrace</title>
<a href="{address}">Open the page</a>
"""


@contextmanager
def in_browser(address: str, *, wanted: bool) -> Iterator[None]:
    """Open the address through a file that only this user can read; it is deleted at the end.

    All users of a machine see the arguments of all processes, the browser's among them.
    """
    import tempfile
    from html import escape

    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="foretrace-", ignore_cleanup_errors=True) as folder:
        page = os.path.join(folder, "open.html")
        with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_PAGE.format(address=escape(address)))
        if click.launch(page):
            say("no browser was found: open the address above")
        yield


PATIENCE_S = 0.5  # a shorter wait needs no explanation
EVERY_S = 0.1  # often enough to be seen to move


class ProgressLine:
    """Draws reports over each other; an empty one clears the line."""

    def __init__(self) -> None:
        self.due = time.monotonic() + PATIENCE_S
        self.drawn = False

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if not text and self.drawn:
            self._write("")
        elif text and now >= self.due:
            self._write(text)
            self.due = now + EVERY_S

    def _write(self, text: str) -> None:
        from foretrace.base.terminal import plain

        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{plain(text)[:width]}")
        sys.stderr.flush()
        self.drawn = bool(text)


@contextmanager
def on_terminal() -> Iterator[None]:
    """Show progress while a command runs; where stderr is not a terminal, show nothing."""
    if not sys.stderr.isatty():
        yield
        return
    show_with(ProgressLine())
    try:
        yield
    finally:
        report()
        show_with(None)
