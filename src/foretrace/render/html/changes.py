"""Which kernels of two traces are the same, changed, new or gone: marks for the timelines."""

from __future__ import annotations

import numpy as np

from foretrace.comparison import compare, document
from foretrace.model.arguments import json_text
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace
from foretrace.schema.documents.compare import CompareDocument

# an event's `mark` is a position in this list, -1 for what is no kernel
MARKS = ("same", "changed", "new", "gone")
_SAME, _CHANGED, _NEW, _GONE = range(4)


def comparison(a: Trace, b: Trace) -> CompareDocument:
    """The document of `foretrace compare --json`."""
    return document(compare(a, b))


def marks(document: CompareDocument, trace: Trace, side: str) -> Ints:
    """The mark of every event of one side; a kernel is known by name, grid and block."""
    known: dict[tuple[str, str | None, str | None], int] = {}
    for mark, rows in ((_CHANGED, document.kernels.changed), (_SAME, document.kernels.same)):
        for row in rows:
            shown = row.to if side == "b" and row.to else row
            known[shown.name, shown.config.grid, shown.config.block] = mark
    otherwise = _GONE if side == "a" else _NEW
    frame = trace.kernels.select("id", "name", "grid", "block")
    by_event = np.full(trace.host.count, -1, np.int64)
    by_event[frame["id"].to_numpy()] = [
        known.get((name, grid and json_text(grid), block and json_text(block)), otherwise)
        for name, grid, block in frame.drop("id").iter_rows()
    ]
    return by_event
