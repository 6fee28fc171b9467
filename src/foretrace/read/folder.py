"""Folders and archives of traces: which of the files are traces, told by their first bytes.

Producers name their files in a dozen ways (`*.pt.trace.json.gz`, `rank0_trace.json.gz`,
`libkineto_activities_7.json`, a killed export's `t.json.tmp`) and keep other JSON beside them, so a
name only says which files to look into.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from foretrace.base import notices
from foretrace.base.budget import Limits, ceiling
from foretrace.base.errors import TraceError, UsageError, printable
from foretrace.read import captures
from foretrace.read.bytestream import empty, first_bytes, refuse_no_events, refuse_non_json
from foretrace.read.compiler.bundle import NAMED as LOG_NAMED
from foretrace.read.compiler.bundle import SUFFIX as BUNDLE
from foretrace.read.unpack import zip_members

NAMED_LIKE_A_TRACE = (
    r"(?i)\.(?:json|trace|tmp)(?:\.(?:gz|zst|zstd|tmp))?$|\.(?:gz|zst|zstd|zip)$"
    r"|\.(?:sqlite|pftrace|perfetto-trace)$"  # Nsight Systems' export; Perfetto's own format
)
_RECORD = ".run.json"  # what `foretrace lab run` writes beside a trace
_TRACE = (
    rb'"traceEvents"\s*+:\s*+\[|\A\s*+\[\s*+\{[^{}]{0,400}"ph"\s*+:'
    rb'|"schemaVersion"\s*+:\s*+\d++\s*+,'
)
_PEEK = 256 << 10


class FolderContents(Struct, frozen=True):
    """`files` are named like traces, sorted, each with why it is unreadable; `others` counts."""

    files: list[tuple[str, TraceError | None]]
    others: int

    @property
    def traces(self) -> list[str]:
        """The files that are traces."""
        return [path for path, problem in self.files if problem is None]


def resolve(path: str, limits: Limits) -> str:
    """The one trace that `path` means; of several, a usage error lists them."""
    found = searched(path, limits)
    if found is None:
        return path
    traces = found.traces
    if not traces:
        raise nothing_in(path, [str(problem) for _, problem in found.files])
    if len(traces) > 1:
        import shlex

        listed = "\n  ".join(map(printable, traces[:64]))
        overview = f"`foretrace look {shlex.quote(path)}` gives an overview"
        raise UsageError(
            f"{path} contains {len(traces)} traces ({overview}); choose one:\n  {listed}"
        )
    return traces[0]


def nothing_in(path: str, reasons: Sequence[str]) -> TraceError:
    """The error for a folder without a trace; of `reasons`, one per file, the first is shown."""
    more = f" (and {len(reasons) - 1:,} more)" if len(reasons) > 1 else ""
    message = f"contains no trace: {reasons[0]}{more}" if reasons else "contains no trace"
    hint = "give a folder with *.json or *.json.gz traces"
    return TraceError("E_NO_EVENTS", path, message, hint=hint)


def searched(path: str, limits: Limits) -> FolderContents | None:
    """What a folder or zip holds; None when `path` is neither."""
    if path == "-":
        return None
    if os.path.isdir(path):
        closed: list[tuple[str, TraceError]] = []
        files = list(_walk(path, closed))
        named = [
            (full, _archive(full) if full.lower().endswith(".zip") else refusal(full, limits))
            for full in files
            if re.search(NAMED_LIKE_A_TRACE, full)
            if not LOG_NAMED.fullmatch(os.path.basename(full))
        ]
        return _contents(named, closed, len(files) - len(named))
    members = zip_members(path, limits)
    if members is None:
        return None
    return _contents([(each, refusal(each, limits)) for each in members])


def _contents(
    files: list[tuple[str, TraceError | None]],
    closed: Sequence[tuple[str, TraceError]] = (),
    others: int = 0,
) -> FolderContents:
    """Leave out what is neither a trace nor named like one."""
    traces = {path for path, problem in files if problem is None}
    kept = [
        (path, problem)
        for path, problem in files
        if problem is None or _is_named_like_a_trace(path, traces)
    ]
    listed = sorted([*kept, *closed], key=lambda pair: pair[0])
    return FolderContents(listed, others + len(files) - len(kept))


def _is_named_like_a_trace(path: str, traces: set[str]) -> bool:
    stem = path.removesuffix(_RECORD)
    if stem != path and not traces.isdisjoint((f"{stem}.json", f"{stem}.json.gz")):
        return False
    return re.search(NAMED_LIKE_A_TRACE, path) is not None


def _walk(path: str, closed: list[tuple[str, TraceError]]) -> Iterator[str]:
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
            and not (with_trace and captures.is_folder(name))
        )
        finished = {f"{name}.tmp" for name in names}  # their drafts hold nothing new
        yield from (os.path.join(folder, name) for name in names if name not in finished)


def _archive(path: str) -> TraceError:
    import shlex

    hint = f"read it by itself: foretrace look {shlex.quote(path)}"
    return TraceError("E_ZIP", path, "a zip inside a folder is not read", hint=hint)


def refusal(path: str, limits: Limits) -> TraceError | None:
    """Why a file cannot be a trace, told by its first bytes; None when it looks like one."""
    notices.report(f"finding traces: {path}")
    try:
        with ceiling(path, limits):
            held = first_bytes(path, limits, _PEEK, _TRACE)
            if re.search(_TRACE, held):
                return None
            refuse_non_json(path, held, limits.depth)
            if not held.strip():
                return empty(path)
            whole = len(held) >= _PEEK or held.rstrip().endswith((b"}", b"]"))
            return refuse_no_events(path, held, whole)
    except TraceError as problem:
        return problem
