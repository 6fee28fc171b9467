"""The one door: what a path means, recognised once by content.

A path may be a trace, a folder or a zip of traces, an address in a store, a snapshot of torch's
allocator, a log of torch.compile, the result of `foretrace try`, the name of a recording that ships
with foretrace, or `-`. Each answer holds what is read next, so that no one asks the disk again.

Producers name their traces in a dozen ways (`*.pt.trace.json.gz`, `rank0_trace.json.gz`,
`libkineto_activities_7.json`, a killed export's `t.json.tmp`) and keep other JSON beside them, so a
name only says which files of a folder to look into.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from foretrace.base.budget import Limits, ceiling
from foretrace.base.errors import ForetraceError, TraceError, UsageError, printable, report
from foretrace.read.bytestream import (
    SMALL,
    ZIP,
    empty,
    files_in,
    first_bytes,
    is_converted,
    is_remote,
    open_regular,
    open_stream,
    open_zip,
    refuse_no_events,
    refuse_non_json,
    start_of,
    unreadable,
)
from foretrace.read.compiler.bundle import NAMED as LOG_NAMED
from foretrace.read.compiler.bundle import SUFFIX as BUNDLE
from foretrace.read.compiler.bundle import names_in
from foretrace.read.ledger import LedgerBuilder
from foretrace.read.recordings import opened_as

if TYPE_CHECKING:
    from foretrace.read.tried import TryDocument

NAMED_LIKE_A_TRACE = (
    r"(?i)\.(?:json|trace|tmp)(?:\.(?:gz|zst|zstd|tmp))?$|\.(?:gz|zst|zstd|zip)$"
    r"|\.(?:sqlite|pftrace|perfetto-trace)$"  # Nsight Systems' export; Perfetto's own format
)
_NAMED_LIKE_A_SNAPSHOT = r"\.(?:pickle|pkl)(?:\.(?:gz|xz|zst))?$"
_RECORD = ".run.json"  # what `foretrace lab run` writes beside a trace
_TRACE = (
    rb'"traceEvents"\s*+:\s*+\[|\A\s*+\[\s*+\{[^{}]{0,400}"ph"\s*+:'
    rb'|"schemaVersion"\s*+:\s*+\d++\s*+,'
)
_PICKLE = rb"\x80[\x02-\x05]|\(dp|\}q"
_TRY = (b'"found_by"', b'"baseline"')  # keys at the beginning of a result that no trace has
_MAGIC = 64  # bytes that tell a container, or a format that is not JSON
_PEEK = 256 << 10
_MOST_BLOCKS = 64  # of the result of a try, which has a few kilobytes
MEMBERS = 1 << 14  # of a zip that holds a job: it has many ranks with short names


class TraceFile(Struct, frozen=True):
    """One trace: a file, a member of a zip, a file in a store, or stdin.

    `doubt` says why its first bytes are no trace's, where they are not. Reading it decides.
    """

    path: str
    doubt: TraceError | None = None


class TraceFolder(Struct, frozen=True):
    """A folder or a zip.

    `files` are named like traces, sorted, each with why it is unreadable; `others` counts.
    `sizes` has the bytes of each trace, `snapshots` those of torch's allocator.
    """

    path: str
    files: list[tuple[str, TraceError | None]]
    others: int
    sizes: dict[str, int]
    snapshots: list[str]

    @property
    def traces(self) -> list[str]:
        """The files that are traces."""
        return [path for path, problem in self.files if problem is None]

    @property
    def problems(self) -> list[tuple[str, TraceError]]:
        """The files that are named like traces and cannot be read."""
        return [(path, problem) for path, problem in self.files if problem]


class NamedFiles(Struct, frozen=True):
    """The files of a store, or of a zip of many ranks, that are named like traces, with sizes.

    To look into each would read a part of it twice. `limits` apply to them.
    """

    path: str
    files: dict[str, int]
    limits: Limits


class SnapshotFile(Struct, frozen=True):
    """A snapshot of torch's allocator."""

    path: str


class CompilerLog(Struct, frozen=True):
    """A log of torch.compile, or a folder of logs."""

    path: str


class TryResult(Struct, frozen=True):
    """What `foretrace try --json` printed."""

    path: str
    document: TryDocument


Opened = TraceFile | TraceFolder | NamedFiles | SnapshotFile | CompilerLog | TryResult
Path = str | os.PathLike[str]


def open_any(path: Path | Opened, limits: Limits | None = None, *, by_name: bool = False) -> Opened:
    """What a path means; an answer is given back as it is.

    A file that nothing recognises is a trace with a doubt: whoever reads it says what is wrong.
    With `by_name` the members of a zip are taken by their names, as the files of a store are.
    Raises `TraceError` where a folder, a zip or a store cannot be listed.
    """
    if isinstance(path, Struct):
        return path
    bounds, name = limits or Limits(), opened_as(os.fspath(path))
    if name == "-":
        return TraceFile(name)
    if is_remote(name):
        return _in_store(name, bounds)
    if os.path.isdir(name):
        return _folder(name, bounds)
    if not os.path.exists(name) and os.path.isdir(name + BUNDLE):
        return CompilerLog(name + BUNDLE)
    return _file(name, bounds, by_name)


def one_trace(found: Opened) -> str:
    """The path of the one trace that is meant; of several, a usage error lists them."""
    if not isinstance(found, TraceFolder):
        return found.path
    traces = found.traces
    if not traces and found.snapshots and not found.problems:
        raise refused(SnapshotFile(found.snapshots[0]))
    if not traces:
        raise nothing_in(found.path, [str(problem) for _, problem in found.problems])
    if len(traces) > 1:
        import shlex

        listed = "\n  ".join(map(printable, traces[:64]))
        overview = f"`foretrace look {shlex.quote(found.path)}` gives an overview"
        raise UsageError(
            f"{found.path} contains {len(traces)} traces ({overview}); choose one:\n  {listed}"
        )
    return traces[0]


_TAKES = {  # what a path is, and the command that takes it
    TraceFile: ("a trace", "look"),
    TraceFolder: ("a folder of traces", "look"),
    NamedFiles: ("a place in a store, which holds a job", "job"),
    SnapshotFile: ("a pickle, like a snapshot of torch's allocator", "memory"),
    CompilerLog: ("a log of torch.compile", "why"),
    TryResult: ("a result of foretrace try", "look"),
}


def refused(found: Opened) -> ForetraceError:
    """The error of a command that does not take what a path is: it names the one that does."""
    import shlex

    if isinstance(found, NamedFiles) and not found.files:
        return nothing_in(found.path, [])
    what, command = _TAKES[type(found)]
    return UsageError(
        printable(f"{found.path} is {what}: foretrace {command} {shlex.quote(found.path)}")
    )


def nothing_in(path: str, reasons: Sequence[str]) -> TraceError:
    """The error for a folder without a trace; of `reasons`, one per file, the first is shown."""
    more = f" (and {len(reasons) - 1:,} more)" if len(reasons) > 1 else ""
    message = f"contains no trace: {reasons[0]}{more}" if reasons else "contains no trace"
    hint = "give a folder with *.json or *.json.gz traces"
    return TraceError("E_NO_EVENTS", path, message, hint=hint)


def _file(path: str, limits: Limits, by_name: bool = False) -> Opened:
    """One file, opened once."""
    if "::" in path and not os.path.exists(path):
        return _recognised(path, limits)
    try:
        handle = open_regular(path, SMALL)
    except TraceError as problem:
        return TraceFile(path, problem)
    with handle:
        try:
            first = handle.read(_MAGIC)
            handle.seek(0)
        except OSError as problem:
            return TraceFile(path, unreadable(path, problem, "copy the file again"))
        if first.startswith(ZIP):
            return _zip(handle, path, limits, by_name)
        # such a file becomes JSON as a whole, to be read once
        return TraceFile(path) if is_converted(first) else _recognised(path, limits, handle)


def _recognised(path: str, limits: Limits, handle: IO[bytes] | None = None) -> Opened:
    held = b""
    try:
        with ceiling(path, limits):
            stream = open_stream(path, limits, LedgerBuilder(), handle=handle)
            held = start_of(stream, _PEEK, _TRACE)
            problem = _problem(path, held, limits)
            if problem is None:
                return TraceFile(path)
            if all(mark in held for mark in _TRY):
                from foretrace.read.tried import read_tried

                if tried := read_tried(path, held + b"".join(islice(stream.blocks, _MOST_BLOCKS))):
                    return TryResult(path, tried)
    except TraceError as refused:
        problem = refused
    name = os.path.basename(path)
    if re.match(_PICKLE, held) or re.search(_NAMED_LIKE_A_SNAPSHOT, name):
        return SnapshotFile(path)
    if LOG_NAMED.fullmatch(name) or _is_log(held):
        return CompilerLog(path)
    return TraceFile(path, problem)


def _is_log(held: bytes) -> bool:
    """Whether lines of torch's log begin in these bytes; a program may print much before."""
    if held.lstrip().startswith((b"{", b"[")):
        return False
    from foretrace.read.compiler.reader import HEAD

    return HEAD.search(held) is not None


def _problem(path: str, held: bytes, limits: Limits) -> TraceError | None:
    """Why a file with these first bytes cannot be a trace; None when it looks like one."""
    if re.search(_TRACE, held):
        return None
    try:
        refuse_non_json(path, held, limits.depth)
    except TraceError as problem:
        return problem
    if not held.strip():
        return empty(path)
    whole = len(held) >= _PEEK or held.rstrip().endswith((b"}", b"]"))
    return refuse_no_events(path, held, whole)


def _in_store(url: str, limits: Limits) -> Opened:
    """A file of a store, by content; the files below an address, by name."""
    from foretrace.read.remote import files_below

    try:
        files = files_below(url)
        if [name.partition("://")[2] for name in files] != [url.partition("://")[2]]:
            return NamedFiles(url, _named(files), limits)
    except OSError as problem:
        raise unreadable(url, problem, "check the address and the credentials") from None
    return _file(url, limits, by_name=True)


def _named(files: dict[str, int]) -> dict[str, int]:
    chosen = (each for each in sorted(files) if re.search(NAMED_LIKE_A_TRACE, each))
    return {each: files[each] for each in chosen if not each.lower().endswith(".zip")}


def _zip(handle: IO[bytes], path: str, limits: Limits, by_name: bool) -> Opened:
    if by_name:
        limits = replace(limits, members=max(limits.members, MEMBERS))
    with open_zip(handle, path, limits) as archive:
        packed = {info.filename: info.compress_size for info in archive.infolist()}
        sizes = {f"{path}::{name}": packed[name] for name in files_in(archive)}
    if by_name:
        return NamedFiles(path, _named(sizes), limits)
    if len(sizes) == 1:
        found = _recognised(next(iter(sizes)), limits)
        if not isinstance(found, TraceFile):
            return found
        return _contents(path, [(found.path, found.doubt)], sizes=sizes)
    return _contents(path, [(each, refusal(each, limits)) for each in sizes], sizes=sizes)


def _folder(path: str, limits: Limits) -> Opened:
    closed: list[tuple[str, TraceError]] = []
    files = list(_walk(path, closed))
    named = [
        (full, _archive(full) if full.lower().endswith(".zip") else refusal(full, limits))
        for full in files
        if re.search(NAMED_LIKE_A_TRACE, full)
        if not LOG_NAMED.fullmatch(os.path.basename(full))
    ]
    if all(problem for _, problem in named) and not closed:
        # a bundle has a manifest, which is no trace
        is_bundle = path.rstrip("/").endswith(BUNDLE)
        if is_bundle or (not named and any(map(LOG_NAMED.fullmatch, names_in(path)))):
            return CompilerLog(path)
    sizes = {full: os.path.getsize(full) for full, problem in named if problem is None}
    pickles = [full for full in sorted(files) if re.search(_NAMED_LIKE_A_SNAPSHOT, full)]
    snapshots = [full for full in pickles if _is_pickle(full, limits)]
    return _contents(path, named, closed, len(files) - len(named), sizes, snapshots)


def _is_pickle(path: str, limits: Limits) -> bool:
    try:
        return re.match(_PICKLE, first_bytes(path, limits, _MAGIC)) is not None
    except TraceError:  # reading it says what is wrong
        return False


def _contents(
    path: str,
    files: list[tuple[str, TraceError | None]],
    closed: Sequence[tuple[str, TraceError]] = (),
    others: int = 0,
    sizes: Mapping[str, int] = MappingProxyType({}),
    snapshots: Sequence[str] = (),
) -> TraceFolder:
    """Leave out what is neither a trace nor named like one."""
    traces = {path for path, problem in files if problem is None}
    kept = [
        (path, problem)
        for path, problem in files
        if problem is None or _is_named_like_a_trace(path, traces)
    ]
    listed = sorted([*kept, *closed], key=lambda pair: pair[0])
    others += len(files) - len(kept)
    return TraceFolder(path, listed, others, {each: sizes[each] for each in traces}, [*snapshots])


def _is_named_like_a_trace(path: str, traces: set[str]) -> bool:
    stem = path.removesuffix(_RECORD)
    if stem != path and not traces.isdisjoint((f"{stem}.json", f"{stem}.json.gz")):
        return False
    return re.search(NAMED_LIKE_A_TRACE, path) is not None


def _walk(path: str, closed: list[tuple[str, TraceError]]) -> Iterator[str]:
    from foretrace.read.captures import is_folder

    def unlisted(problem: OSError) -> None:
        place, what = os.fsdecode(problem.filename), f"cannot be listed: {problem.strerror}"
        closed.append((place, TraceError("E_UNREADABLE", place, what, hint="check permissions")))

    for folder, inside, names in os.walk(path, onerror=unlisted):
        with_trace = any(re.search(NAMED_LIKE_A_TRACE, name) for name in names)
        # the compiler's records and the captures of graphs belong to the trace beside them
        inside[:] = sorted(
            name
            for name in inside
            if not name.startswith(".")
            and not name.endswith(BUNDLE)
            and not (with_trace and is_folder(name))
        )
        finished = {f"{name}.tmp" for name in names}  # their drafts hold nothing new
        yield from (os.path.join(folder, name) for name in names if name not in finished)


def _archive(path: str) -> TraceError:
    import shlex

    hint = f"read it by itself: foretrace look {shlex.quote(path)}"
    return TraceError("E_ZIP", path, "a zip inside a folder is not read", hint=hint)


def refusal(path: str, limits: Limits) -> TraceError | None:
    """Why a file of a folder cannot be a trace, by its first bytes; None when it looks like one."""
    report(f"finding traces: {path}")
    try:
        with ceiling(path, limits):
            return _problem(path, first_bytes(path, limits, _PEEK, _TRACE), limits)
    except TraceError as problem:
        return problem
