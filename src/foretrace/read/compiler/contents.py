"""The logs of a bundle, told by their names and their first bytes. All else is ignored.

A process does not know its rank before `init_process_group`. A record without a rank gets the one
that the rest of its process, or the name of its file, states.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from foretrace.base.budget import Limits
from foretrace.base.errors import LimitError, TraceError
from foretrace.base.patterns import regex
from foretrace.read.bytestream import first_bytes, reported
from foretrace.read.compiler.bundle import NAMED, PACKED, is_named, names_in, nothing
from foretrace.read.compiler.reader import HEAD, LogFile
from foretrace.read.compiler.runs import LogRecord, TextRecord, manifest_of
from foretrace.read.unpack import zip_members
from foretrace.schema.ledger import LedgerBuilder

_IN_NAME = regex(r"(?:^|_)rank_?(\d{1,9})(?!\d)")  # dedicated_log_torch_trace_rank_3_x1.log
Entry = TypeVar("Entry", LogRecord, TextRecord)


class Ranks:
    """What the files of a bundle say about the ranks of their processes."""

    def __init__(self, default: int | None) -> None:
        self.default = default  # of the bundle
        self.stated: dict[tuple[str, int], set[int]] = {}  # by file and process
        self.processes: dict[str, int] = {}  # by file: the one that wrote most of it

    def learn(self, path: str, entries: Iterable[LogRecord | TextRecord]) -> None:
        """Take note of the ranks in one file."""
        wrote = Counter((entry.pid, entry.rank) for entry in entries)
        found = _IN_NAME.search(os.path.basename(path))
        named = int(found[1]) if found else None
        for pid, stated in wrote:
            rank = named if stated is None else stated
            self.stated.setdefault((path, pid), set()).update([] if rank is None else [rank])
        if wrote:
            self.processes[path] = max(wrote, key=lambda each: wrote[each])[0]

    def of(self, path: str, pid: int) -> int | None:
        """The rank of a process; None where the files say nothing, or several things."""
        own = self.stated.get((path, pid), set())
        everywhere = own or {
            rank for (_, other), ranks in self.stated.items() if other == pid != 0 for rank in ranks
        }
        if len(everywhere) > 1:
            return None
        return next(iter(everywhere), self.default)

    def filled(self, path: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries of one file with their ranks, as far as they are known."""
        known = {pid: self.of(path, pid) for source, pid in self.stated if source == path}
        if all(rank is None for rank in known.values()):
            return entries
        return [
            entry if entry.rank is not None else replace(entry, rank=known[entry.pid])
            for entry in entries
        ]


_PEEK = 256 << 10  # a program may print much before it compiles


def files_of(path: str, limits: Limits, ledger: LedgerBuilder) -> list[str]:
    """The logs of a bundle, by name, or of a zip; of a file, the file itself."""
    if not os.path.isdir(path):
        return _members(path, limits) or [path]
    manifest = manifest_of(path)
    named = manifest.files if manifest else ()
    missing = [name for name in named if not os.path.isfile(os.path.join(path, name))]
    ledger.note("log_file_missing", len(missing), f"missing from the bundle: {', '.join(missing)}")
    ledger.note("log_records_lost", manifest.lost if manifest else 0)
    names = names_in(path)
    found = [
        os.path.join(path, name)
        for name in names
        if is_named(name) and not (name.endswith(PACKED) and os.path.splitext(name)[0] in names)
    ]
    logs = [each for each in found if os.path.isfile(each) and _is_log(each, limits)]
    if not logs:
        raise nothing(path, "contains no log of torch.compile")
    return logs


def _members(path: str, limits: Limits) -> list[str]:
    """The logs in a zip; none where it is something else."""
    members = zip_members(path, limits) or []
    named = [member for member in members if is_named(member.removeprefix(f"{path}::"))]
    return [member for member in named if _is_log(member, limits)]


def read_files(sources: Sequence[str], limits: Limits, ledger: LedgerBuilder) -> dict[str, LogFile]:
    """What each file holds; one of several that cannot be read is noted, and the others are."""
    files: dict[str, LogFile] = {}
    problems: list[TraceError] = []
    for source in sources:
        file = LogFile(ledger, limits)
        try:
            file.read(source, reported(source))
            files[source] = file
        except LimitError:
            raise
        except TraceError as problem:
            problems.append(problem)
    if problems and not files:
        raise problems[0]
    ledger.note("log_file_unreadable", len(problems), str(problems[0]) if problems else "")
    return files


def _is_log(path: str, limits: Limits) -> bool:
    """Whether a file is named as torch names its logs, or begins like one."""
    if NAMED.fullmatch(os.path.basename(path)):
        return True
    try:
        return HEAD.search(first_bytes(path, limits, _PEEK)) is not None
    except TraceError:
        return False
