"""One file of a job, reduced to what the job needs of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from foretrace.analyze.jobs.facts import facts_of
from foretrace.analyze.jobs.gpu_time import doing, work_of
from foretrace.analyze.jobs.messages import collectives_table
from foretrace.analyze.jobs.parts import FileAnswer, packed
from foretrace.analyze.jobs.places import size_of
from foretrace.analyze.jobs.tables import host_table, kernels_table, spans_table
from foretrace.analyze.jobs.windows import steps_table, windows
from foretrace.base import budget
from foretrace.base.budget import Limits
from foretrace.base.errors import ForetraceError, TraceError
from foretrace.model import opening
from foretrace.read import cache as store
from foretrace.read import entries, remote
from foretrace.read.folder import resolve
from foretrace.schema.jobs import RankPart

if TYPE_CHECKING:
    from foretrace.model.trace import Trace


def answer(path: str, limits: Limits, cache: bool) -> FileAnswer:
    """What every engine runs for every file: a file that cannot be read costs that file."""
    try:
        return FileAnswer(part=reduce_file(path, limits, cache))
    except TraceError as problem:
        return FileAnswer(left_out=opening.refused(path, problem))
    except ForetraceError:
        raise
    except Exception as problem:  # noqa: BLE001 - a file nobody has seen must not cost the job
        what = f"foretrace fails on it: {type(problem).__name__}: {problem}"
        failed = TraceError("E_UNREADABLE", path, what, hint="please report this")
        return FileAnswer(left_out=opening.refused(path, failed))


def reduce_file(path: str, limits: Limits, cache: bool) -> RankPart:
    """The part of one file; that of an unchanged large file comes from the cache.

    Raises `TraceError` where the file cannot be read.
    """
    wanted = resolve(path, limits)
    stamp = _stamp(wanted) if cache and opening.is_kept(limits) else None
    entry = entries.named("part", stamp, opening.program())
    kept = _kept(entry) if stamp else None
    if kept:
        return kept
    with budget.ceiling(opening.shown(wanted), limits):
        trace = opening.load_alone(wanted, limits, use_kept=bool(stamp), keep=False)
        _refuse_merged(trace)
        part = reduced(trace, size_of(wanted))
        if stamp and stamp == _stamp(wanted):
            with budget.waiting():  # an entry is written whole
                entries.write(entry, [msgspec.msgpack.encode(part)])
    return part


def _refuse_merged(trace: Trace) -> None:
    """Whose GPU is idle, and who waits for whom, is not to be told of several ranks at once."""
    if len(trace.tables.merged) > 1:
        what = f"{len(trace.tables.merged)} ranks were merged into this file"
        hint = "give the files that the ranks wrote"
        raise TraceError("E_MERGED", trace.path, what, hint=hint)


def _stamp(path: str) -> str | None:
    """What changes when a file does, and its place: names tell ranks and hosts."""
    if remote.is_remote(path):
        known, place = remote.stamp_of(path), path
    else:
        known, place = store.stamp_of(path), os.path.abspath(path)
    return f"{known} {place}" if known else None


def _kept(entry: str) -> RankPart | None:
    try:
        return msgspec.msgpack.decode(entries.read(entry) or b"", type=RankPart)
    except msgspec.DecodeError:
        return None  # not there, or damaged


def reduced(trace: Trace, file_bytes: int) -> RankPart:
    """The part of one trace."""
    work = work_of(trace)
    found, now = windows(trace, work), doing(trace, work)
    kernels = kernels_table(trace, work, found)
    frames = {
        "steps": steps_table(found, work, now),
        "collectives": collectives_table(trace, work, found, now),
        "spans": spans_table(trace, work, found),
        "host": host_table(trace, found),
        "kernels": kernels,
    }
    tables = {name: packed(name, frame) for name, frame in frames.items()}
    return RankPart(facts_of(trace, found, kernels, file_bytes), tables)
