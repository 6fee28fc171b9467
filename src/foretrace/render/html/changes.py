"""Which kernels of two traces are the same, changed, new or gone: marks for the timelines, and the
comparison's document.
"""

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
_Key = tuple[str, str | None, str | None]  # name, grid and block


def comparison(a: Trace, b: Trace) -> CompareDocument:
    """The document of `foretrace compare --json`."""
    return document(compare(a, b))


def marks(document: CompareDocument, trace: Trace, side: str) -> Ints:
    """The mark of every event of one side's trace.

    A kernel is known by name, grid and block. One that the comparison lists neither as same nor as
    changed was fused, added or removed.
    """
    known, otherwise = _known(document, side), _GONE if side == "a" else _NEW
    frame = trace.kernels.select("id", "name", "grid", "block")
    by_event = np.full(trace.host.count, -1, np.int64)
    by_event[frame["id"].to_numpy()] = [
        known.get((name, grid and json_text(grid), block and json_text(block)), otherwise)
        for name, grid, block in frame.drop("id").iter_rows()
    ]
    return by_event


def _known(document: CompareDocument, side: str) -> dict[_Key, int]:
    known: dict[_Key, int] = {}
    kernels = document.kernels
    for mark, rows in ((_CHANGED, kernels.changed), (_SAME, kernels.same)):
        for row in rows:
            shown = row.to if side == "b" and row.to else row
            known[shown.name, shown.config.grid, shown.config.block] = mark
    return known
