"""Which kernels of two traces are the same, changed, new or gone: marks for the timelines, and the
comparison's document.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foretrace.model.arguments import json_text
from foretrace.model.intervals import Ints
from foretrace.model.trace import Trace

# an event's `mark` is a position in this list, -1 for what is no kernel
MARKS = ("same", "changed", "new", "gone")
_SAME, _CHANGED, _NEW, _GONE = range(4)


def comparison(a: Trace, b: Trace) -> dict[str, Any]:
    """The document of `foretrace compare --json`."""
    from foretrace.comparison import compare, document

    return document(compare(a, b))


def marks(document: dict[str, Any], trace: Trace, side: str) -> Ints:
    """The mark of every event of one side's trace.

    A kernel is told by name, grid and block. What the comparison lists neither as same nor as
    changed was fused away, added or removed.
    """
    known, otherwise = _known(document, side), _GONE if side == "a" else _NEW
    frame = trace.kernels.select("id", "name", "grid", "block")
    by_event = np.full(trace.host.count, -1, np.int64)
    by_event[frame["id"].to_numpy()] = [
        known.get((name, grid and json_text(grid), block and json_text(block)), otherwise)
        for name, grid, block in frame.drop("id").iter_rows()
    ]
    return by_event


def _known(document: dict[str, Any], side: str) -> dict[tuple[Any, ...], int]:
    known: dict[tuple[Any, ...], int] = {}
    for mark, rows in (
        (_CHANGED, document["kernels"]["changed"]),
        (_SAME, document["kernels"]["same"]),
    ):
        for row in rows:
            shown = row.get("to", row) if side == "b" else row
            known[shown["name"], shown["config"]["grid"], shown["config"]["block"]] = mark
    return known
