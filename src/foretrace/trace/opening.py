"""`open`: from a path to a `Trace`, through the cache when it holds the tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache as once
from typing import TYPE_CHECKING

from foretrace.base import budget
from foretrace.base.budget import Limits, keeps_everything
from foretrace.base.errors import TraceError, report
from foretrace.base.version import __version__
from foretrace.read.door import Opened, TraceFolder, one_trace, open_any

if TYPE_CHECKING:
    from foretrace.read.captures import CaptureFile
    from foretrace.read.ledger import LeftOut
    from foretrace.trace.trace import Trace


def open(  # noqa: A001 - the public name: `foretrace.open`
    path: str | os.PathLike[str],
    *,
    cache: bool = True,
    limits: Limits | None = None,
    captures: str | os.PathLike[str] | None = None,
) -> Trace:
    """Open one trace: a file, a folder or zip that holds one, `archive.zip::member`, `-` for stdin,
    or a recording that ships with foretrace (`mlp_eager`).

    `.json`, gzip and zstd are recognized by content. `trace.ledger` says what was repaired or
    skipped. With `cache`, the tables of large traces are kept as Parquet in the user's cache folder
    and the second open reads them from there. `captures` is a folder of traces that were recorded
    while the CUDA graphs of this one were captured; one that lies beside the trace is found without
    it. Raises `foretrace.TraceError` when the file is not a readable trace.
    """
    bounds = limits or Limits()
    wanted = one_trace(open_any(path, bounds))
    return open_file(wanted, bounds, cache, None if captures is None else os.fspath(captures))


def open_file(path: str, limits: Limits, cache: bool, captures: str | None = None) -> Trace:
    """Open a trace whose path the door has recognised."""
    cache = cache and keeps_everything(limits)
    return load(path, limits, use_kept=cache, keep=cache, captures=captures)


def opened(trace: Trace | str | os.PathLike[str]) -> Trace:
    """The trace itself, or the one at a path or of a name."""
    return open(trace) if isinstance(trace, str | os.PathLike) else trace


def open_all(
    folder: str | os.PathLike[str] | Opened, *, cache: bool = True, limits: Limits | None = None
) -> list[Trace]:
    """Open every trace in a folder or zip, by path; each ledger also has the notes on the set."""
    from foretrace.trace.metadata import Member, set_notes

    bounds = limits or Limits()
    found = open_any(folder, bounds)
    paths = found.traces if isinstance(found, TraceFolder) else [one_trace(found)]
    opened = [open_file(path, bounds, cache) for path in paths]
    abouts = [(each, each.about) for each in opened]
    notes = set_notes(
        [Member(e.path, of.rank, of.world_size, e.tables.base_ns, of.job) for e, of in abouts]
    )
    for each in opened:
        each.ledger = each.ledger.with_notes(notes)
    return opened


def import_model() -> None:
    """Import what a trace needs; called while other processes decode a large file."""
    from foretrace.read.kineto import assemble  # noqa: F401
    from foretrace.trace import groups, kernels, utilization  # noqa: F401
    from foretrace.work import (
        costs,
        devices,
        families,
    )

    families.every()
    devices.every()
    costs.kinds()
    groups.every()


def load(
    wanted: str,
    bounds: Limits,
    *,
    use_kept: bool,
    keep: bool,
    meanwhile: Callable[[], None] = import_model,
    captures: str | None = None,
) -> Trace:
    """Load one trace file, and the captures of its graphs; `meanwhile` runs while other processes
    decode it.
    """
    trace = load_alone(wanted, bounds, use_kept, keep, meanwhile)
    if trace.host.is_graph_launch.any() or captures:
        from foretrace.trace.captures.join import join_captures

        found = find_captures(wanted, captures)
        join_captures(trace, found, captures, lambda p: load_alone(p, bounds, use_kept, keep))
    return trace


def find_captures(wanted: str, folder: str | None) -> list[CaptureFile]:
    """The captures in a folder, or else those beside a trace."""
    from foretrace.read import captures

    return captures.files(folder, wanted) if folder else captures.beside(wanted)


def load_alone(
    wanted: str,
    bounds: Limits,
    use_kept: bool,
    keep: bool,
    meanwhile: Callable[[], None] = import_model,
) -> Trace:
    """Load one trace file without what lies beside it."""
    from foretrace import read as sources
    from foretrace.read import cache as store

    tables = store.load(wanted) if use_kept else None
    if tables is None:
        stamp = store.stamp_of(wanted)
        try:
            tables = sources.read(wanted, bounds, meanwhile)
        finally:
            report()
        if keep:
            with budget.waiting():  # an entry is written whole
                store.save(wanted, stamp, tables)
    from foretrace.trace.trace import Trace

    return Trace(tables, shown(wanted))


def shown(path: str) -> str:
    """A path as text: file names need not be UTF-8, and documents must be."""
    return os.fsencode(path).decode(errors="replace")


def refused(path: str, problem: TraceError) -> LeftOut:
    """A file that cannot be read, in words: errors cannot be sent between processes."""
    from foretrace.read.ledger import LeftOut

    text = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    return LeftOut(shown(path), problem.code, shown(text))


def ended(path: str) -> LeftOut:
    """A file whose process was ended."""
    what, hint = "the system ended the process that read it", "free memory, then read it by itself"
    return refused(path, TraceError("E_UNREADABLE", path, what, hint=hint))


@once  # a job asks for each of its files
def program() -> str:
    """The version of the code: a change makes what an older one kept stale."""
    newest = 0
    for folder, _, names in os.walk(os.path.dirname(os.path.dirname(__file__))):
        files = (os.path.join(folder, name) for name in names if name.endswith(".py"))
        newest = max([newest, *(os.stat(file).st_mtime_ns for file in files)])
    return f"{__version__}-{newest}"
