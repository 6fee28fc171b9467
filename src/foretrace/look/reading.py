"""Overviews of traces by path: from the cache, in this process, or in a process per core.

`look_set` does this for a folder or zip. A cached overview imports nothing heavy, so that the
second look is instant.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from zlib import crc32

import msgspec

from foretrace.base import budget, plugins
from foretrace.base.budget import Limits, keeps_everything
from foretrace.base.errors import TraceError, report
from foretrace.look.documents import SCHEMA, LookSet, Overview
from foretrace.look.steering import Steering
from foretrace.read.compiler import bundle
from foretrace.read.door import TraceFolder, nothing_in
from foretrace.read.ledger import LeftOut, NoteEntry
from foretrace.read.run_record import content_beside, snapshot_beside
from foretrace.trace import opening
from foretrace.trace.metadata import Member, ranks_of_one_job, set_notes
from foretrace.trace.opening import refused
from foretrace.work import devices

WORTHWHILE = 16 << 20  # bytes on disk: a process starts in 0.7 s, and reads 20 MB of JSON in that
MOST = 8  # processes: each holds a whole trace
Read = Callable[[str], Overview | LeftOut]


ALL = Steering()  # nothing is ignored


def overview_of(
    path: str,
    *,
    cache: bool = True,
    limits: Limits | None = None,
    captures: str | None = None,
    steering: Steering = ALL,
) -> Overview:
    """The overview of one trace; that of an unchanged large trace comes from the cache."""
    bounds = limits or Limits()
    cache = cache and keeps_everything(bounds)
    kept = _kept(path, steering, captures) if cache else None
    return kept or _made(path, bounds, cache, captures, steering)


def _kept(wanted: str, steering: Steering, captures: str | None = None) -> Overview | None:
    from foretrace.read import cache as store

    if not store.stamp_of(wanted):
        return None
    kept = store.load_document(wanted, _program(wanted, captures, steering))
    if kept is None:
        return None
    try:
        found = msgspec.json.decode(kept, type=Overview)
    except msgspec.DecodeError:
        return None  # damaged
    found.look.trace.path = opening.shown(wanted)
    return found


def _made(
    wanted: str, bounds: Limits, cache: bool, captures: str | None, steering: Steering
) -> Overview:
    from foretrace.read import cache as store

    with budget.ceiling(opening.shown(wanted), bounds):
        stamp = store.stamp_of(wanted)
        # the overview is kept; the tables are kept when a command opens the trace itself
        trace = opening.load(
            wanted, bounds, use_kept=cache, keep=False, meanwhile=_import_all, captures=captures
        )
        from foretrace.look import summarize

        report("applying the rules")
        found = summarize(trace, steering)
        report()
        if cache:
            with budget.waiting():  # an entry is written whole
                program = _program(wanted, captures, steering)
                store.save_document(wanted, stamp, program, lambda: msgspec.json.encode(found))
        return found


def _import_all() -> None:
    """Import what an overview needs; called while other processes decode a large file."""
    from foretrace.look import document as look_document  # noqa: F401
    from foretrace.look import rules as analyses

    opening.import_model()
    analyses.rules()


def _program(wanted: str, captures: str | None, steering: Steering = ALL) -> str:
    """The version of the code, the run record, the compiler's records, the captures and the
    allocator's snapshot of the trace, the roofs of this machine, and what the user ignores: a
    change in one of them makes old overviews stale.
    """
    from foretrace.read.captures import mark

    here = f"{devices.measured_stamp()}{steering}"
    beside = content_beside(wanted) + _compiler_records(wanted) + here.encode()
    with suppress(OSError):
        if found := snapshot_beside(wanted):
            stat = os.stat(found)
            beside += f"{found} {stat.st_size} {stat.st_mtime_ns}".encode()
    graphs = mark(opening.find_captures(wanted, captures))
    return f"look-{opening.program()}-{crc32(beside):08x}-{graphs:08x}"


def _compiler_records(wanted: str) -> bytes:
    found = bundle.beside(wanted)
    try:
        names = [os.path.join(found, name) for name in bundle.names_in(found)] if found else []
        stats = [(name, os.stat(name)) for name in names]
    except OSError:
        return b""
    marks = ((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    return repr([*marks]).encode("utf-8", "surrogateescape") if stats else b""


def overviews(
    paths: Sequence[str], limits: Limits, cache: bool, steering: Steering = ALL
) -> Iterator[Overview | LeftOut]:
    """For each path its overview, or why there is none; in the order of `paths`."""
    use = cache and keeps_everything(limits)
    kept = {path: found for path in paths if (found := _kept(path, steering))} if use else {}
    read = partial(one, limits=limits, cache=cache, steering=steering)
    fresh = _read([path for path in paths if path not in kept], read)
    for path in paths:
        yield kept.pop(path) if path in kept else next(fresh)


def _read(paths: Sequence[str], read: Read) -> Iterator[Overview | LeftOut]:
    from foretrace.read.kineto.parallel import cores

    workers = min(cores(), MOST, len(paths))
    files = {path.partition("::")[0] for path in paths}
    size = sum(os.path.getsize(file) for file in files if os.path.isfile(file))
    if workers > 1 and size > WORTHWHILE:
        from foretrace.read.workers import spread

        if plugins.installed():
            _import_all()  # says which ones are skipped: here, and not in every process
        found = dict[str, Overview | LeftOut]()
        answers = spread(read, paths, workers, opening.ended)
        for path in paths:
            while path not in found:
                found.update([next(answers)])
            yield found.pop(path)
    else:
        yield from map(read, paths)


def one(path: str, limits: Limits, cache: bool, steering: Steering = ALL) -> Overview | LeftOut:
    """One trace of a set, without what only its own page shows."""
    try:
        found = overview_of(path, cache=cache, limits=limits, steering=steering)
    except TraceError as problem:
        return opening.refused(path, problem)
    found.sequences = []
    return found


OTHERS = (
    "run records, and files not named like traces (*.json, *.trace, *.tmp, *.gz, *.zst, *.zip, "
    "*.sqlite, *.pftrace)"
)


def look_set(
    folder: TraceFolder,
    limits: Limits,
    *,
    cache: bool,
    steering: Steering = ALL,
) -> LookSet:
    """Look at each trace in a folder or zip. Raises `TraceError` when none can be read."""
    left_out = [refused(each, problem) for each, problem in folder.problems]
    paths, looks, members = folder.traces, [], []
    for done, found in enumerate(overviews(paths, limits, cache, steering), start=1):
        report(f"read {done} of {len(paths)}: {paths[done - 1]}")
        if isinstance(found, LeftOut):
            left_out.append(found)
            continue
        looks.append(found.look)
        trace = found.look.trace
        members.append(Member(trace.path, trace.rank, found.world_size, found.base_ns, found.job))
    report()
    left_out.sort(key=lambda each: each.path)
    if not looks:
        raise nothing_in(
            folder.path, [f"{each.path}: {each.text} [{each.code}]" for each in left_out]
        )
    notes = [NoteEntry.of(note) for note in set_notes(members)]
    if folder.others:
        notes.append(NoteEntry("other_files", "info", folder.others, OTHERS))
    job = [member.path for member in ranks_of_one_job(members)]
    return LookSet(SCHEMA, looks, notes, left_out, job)
