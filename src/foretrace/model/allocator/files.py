"""Which file is a snapshot of the allocator, and the views of its devices."""

from __future__ import annotations

import os
import re

from foretrace.base.budget import Limits
from foretrace.base.errors import TraceError
from foretrace.model.allocator.view import MemoryView
from foretrace.read.snapshot import read_snapshot
from foretrace.schema.run_record import snapshot_beside
from foretrace.schema.snapshot import Snapshot

_TRACE = re.compile(r"\.json(?:\.(?:gz|xz|zst))?$")
_NAMED = re.compile(r"\.(?:pickle|pkl)(?:\.(?:gz|xz|zst))?$")


def is_snapshot(path: object) -> bool:
    """Whether a path is named like a snapshot of the allocator."""
    return isinstance(path, str | os.PathLike) and bool(_NAMED.search(os.fspath(path)))


def is_trace(path: str) -> bool:
    """Whether a path is named like a trace."""
    return bool(_TRACE.search(path))


def view_of(path: str, limits: Limits | None = None) -> MemoryView:
    """The device with the highest peak of a snapshot."""
    return memory_views(read_snapshot(path, limits))[0]


def memory_views(snapshot: Snapshot) -> list[MemoryView]:
    """Every device of a snapshot, the one with the highest peak first."""
    if not snapshot.histories:
        hint = "call torch.cuda.memory._record_memory_history() before the program allocates"
        message = "the snapshot has no history: what is held is known, not what filled it"
        raise TraceError("E_NO_HISTORY", snapshot.path, message, hint=hint)
    found = [MemoryView(snapshot, history) for history in snapshot.histories]
    return sorted(found, key=lambda view: -view.peak_bytes)


def view_beside(trace: str) -> MemoryView | None:
    """The view of the snapshot beside a trace; None where there is none that can be read."""
    found = snapshot_beside(trace)
    try:
        return view_of(found) if found else None
    except TraceError:
        return None
