"""Overviews of traces by path: from the cache, in this process, or in a process per core.

Nothing heavy is imported for a cached overview, so that the second look is instant. A process of
its own gives back the memory that reading a trace takes. Ctrl+C reaches this process alone, which
then ends the others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from zlib import crc32

import msgspec

from foretrace import notices, opening, plugins, progress
from foretrace.errors import TraceError
from foretrace.overview.page import Overview
from foretrace.schema.documents.sets import LeftOut
from foretrace.schema.run_record import content_beside
from foretrace.sources import budget
from foretrace.sources import cache as store
from foretrace.sources.captures import mark
from foretrace.sources.compiler import bundle
from foretrace.sources.folder import resolve
from foretrace.sources.limits import Limits
from foretrace.version import __version__

WORTHWHILE = 16 << 20  # bytes on disk: a process starts in 0.7 s, and reads 20 MB of JSON in that
MOST = 8  # processes: each holds a whole trace


def overview_of(
    path: str, *, cache: bool = True, limits: Limits | None = None, captures: str | None = None
) -> Overview:
    """The overview of one trace; that of an unchanged large trace comes from the cache."""
    bounds = limits or Limits()
    wanted, cache = resolve(path, bounds), cache and opening.is_kept(bounds)
    kept = _kept(wanted, captures) if cache else None
    return kept or _made(wanted, bounds, cache, captures)


def _kept(wanted: str, captures: str | None = None) -> Overview | None:
    """The overview that an earlier look left in the cache."""
    kept = (
        store.load_document(wanted, _program(wanted, captures)) if store.stamp_of(wanted) else None
    )
    try:
        found = msgspec.json.decode(kept or b"", type=Overview)
    except msgspec.DecodeError:
        return None  # not there, or damaged
    found.look.trace.path = opening.shown(wanted)
    return found


def _made(wanted: str, bounds: Limits, cache: bool, captures: str | None) -> Overview:
    with budget.ceiling(opening.shown(wanted), bounds):
        return _summarized(wanted, bounds, cache, captures)


def _summarized(wanted: str, bounds: Limits, cache: bool, captures: str | None) -> Overview:
    stamp = store.stamp_of(wanted)
    # the overview is kept; the tables are kept when a command opens the trace itself
    trace = opening.load(
        wanted, bounds, use_kept=cache, keep=False, meanwhile=_import_all, captures=captures
    )
    from foretrace.overview import summarize

    hashing = Thread(target=store.key_of, args=(wanted,)) if cache and stamp else None
    if hashing:
        hashing.start()  # the summary keeps one core busy; the key is ready when it is
    progress.report("applying the rules")
    found = summarize(trace)
    progress.report()
    if hashing:
        with budget.waiting():  # an entry is written whole
            hashing.join()
            program = _program(wanted, captures)
            store.save_document(wanted, stamp, program, lambda: msgspec.json.encode(found))
    return found


def _import_all() -> None:
    """Import what an overview needs; called while other processes decode a large file."""
    from foretrace import analyses
    from foretrace.overview import document, sentences, sequences, unit, verdict  # noqa: F401

    opening.import_model()
    analyses.rules()


def _program(wanted: str, captures: str | None) -> str:
    """The version of the code, the run record, the compiler's records and the captures of the
    trace: a change in one of them makes old overviews stale.
    """
    newest = 0
    for folder, _, names in os.walk(os.path.dirname(opening.__file__)):
        files = (os.path.join(folder, name) for name in names if name.endswith(".py"))
        newest = max([newest, *(os.stat(file).st_mtime_ns for file in files)])
    beside = content_beside(wanted) + _compiler_records(wanted)
    graphs = mark(opening.find_captures(wanted, captures))
    return f"look-{__version__}-{newest}-{crc32(beside):08x}-{graphs:08x}"


def _compiler_records(wanted: str) -> bytes:
    """Name, size and time of each of the compiler's records; nothing where it has none."""
    found = bundle.beside(wanted)
    try:
        names = [os.path.join(found, name) for name in bundle.names_in(found)] if found else []
        stats = [(name, os.stat(name)) for name in names]
    except OSError:
        return b""
    marks = ((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    return repr([*marks]).encode("utf-8", "surrogateescape") if stats else b""


def refused(path: str, problem: TraceError) -> LeftOut:
    """A file that cannot be read, in words: errors cannot be sent between processes."""
    text = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    return LeftOut(opening.shown(path), problem.code, opening.shown(text))


def overviews(paths: Sequence[str], limits: Limits, cache: bool) -> Iterator[Overview | LeftOut]:
    """For each path its overview, or why there is none; in the order of `paths`."""
    use = cache and opening.is_kept(limits)
    kept = {path: found for path in paths if (found := _kept(path))} if use else {}
    fresh = _read([path for path in paths if path not in kept], limits, cache)
    for path in paths:
        yield kept.pop(path) if path in kept else next(fresh)


def _read(paths: Sequence[str], limits: Limits, cache: bool) -> Iterator[Overview | LeftOut]:
    from foretrace.sources.kineto.parallel import cores

    workers = min(cores(), MOST, len(paths))
    files = {path.partition("::")[0] for path in paths}
    size = sum(os.path.getsize(file) for file in files if os.path.isfile(file))
    if workers > 1 and size > WORTHWHILE:
        yield from _in_processes(paths, limits, cache, workers)
    else:
        yield from (one(path, limits, cache) for path in paths)


def one(path: str, limits: Limits, cache: bool) -> Overview | LeftOut:
    """One trace of a set, without what only its own page shows."""
    try:
        found = overview_of(path, cache=cache, limits=limits)
    except TraceError as problem:
        return refused(path, problem)
    found.sequences = []
    return found


def _prepare(said: frozenset[str]) -> None:
    """A process that reads keeps to its ceilings, and repeats no notice."""
    budget.arm()
    notices.leave_out(said)


def _in_processes(
    paths: Sequence[str], limits: Limits, cache: bool, workers: int
) -> Iterator[Overview | LeftOut]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    if plugins.installed():
        _import_all()  # says which ones are skipped: here, and not in every process
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, _prepare, (notices.said(),))
    try:
        with _interrupts_held():
            waiting = [pool.submit(one, path, limits, cache) for path in paths]
        for path, found in zip(paths, waiting, strict=True):
            try:
                with budget.waiting():
                    answer = found.result()
            except BrokenProcessPool:
                if len(paths) == 1:
                    yield _ended(path)
                else:
                    # one died, perhaps for lack of memory: read alone, this trace has more of it
                    yield from _in_processes([path], limits, cache, 1)
            else:
                yield answer
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ended(path: str) -> LeftOut:
    what, hint = "the system ended the process that read it", "free memory, then read it by itself"
    return refused(path, TraceError("E_UNREADABLE", path, what, hint=hint))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started in here never see Ctrl+C: each would print a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
