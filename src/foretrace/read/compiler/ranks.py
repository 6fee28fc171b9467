"""Which rank wrote a record that does not say so: the one that the rest of its process names.

A process does not know its rank before `init_process_group`. Its file may be named by it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from foretrace.read.compiler.records import LogRecord, TextRecord

_IN_NAME = re.compile(r"(?:^|_)rank_?(\d{1,9})(?!\d)")
Entry = TypeVar("Entry", LogRecord, TextRecord)


def rank_in(path: str) -> int | None:
    """The rank that a file is named by: `dedicated_log_torch_trace_rank_3_x1.log`."""
    found = _IN_NAME.search(os.path.basename(path))
    return int(found[1]) if found else None


class Ranks:
    """What the files of a bundle say about the ranks of their processes."""

    def __init__(self, default: int | None) -> None:
        self.default = default  # of the bundle
        self.stated: dict[tuple[str, int], set[int]] = {}  # by file and process
        self.processes: dict[str, int] = {}  # by file: the one that wrote most of it

    def learn(self, path: str, entries: Iterable[LogRecord | TextRecord]) -> None:
        """Take note of the ranks in one file."""
        wrote = Counter((entry.pid, entry.rank) for entry in entries)
        named = rank_in(path)
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
