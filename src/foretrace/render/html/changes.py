"""Which kernels of two traces are the same, changed, new or gone: marks for the timelines, and the comparison's document."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...model.trace import Trace
from .timeline import Timeline

MARKS = ("same", "changed", "new", "gone")  # an event's `mark` is a position in this list, -1 for what is no kernel
_SAME, _CHANGED, _NEW, _GONE = range(4)


def comparison(a: Trace, b: Trace) -> dict[str, Any]:
    """The document of `foretrace compare --json`."""
    from ...compare import compare, document

    return document(compare(a, b))


def marks(document: dict[str, Any], timeline: Timeline, rows: Any, side: str) -> Any:
    """The mark of each of these rows of one side's timeline.

    A kernel is told by name, grid and block. What the comparison lists neither as same nor as changed was fused away,
    added or removed.
    """
    known = _known(document, side)
    trace, event = timeline.trace, timeline.event[rows]
    found = np.full(len(event), -1, np.int64)
    kernels = np.flatnonzero(trace.host.is_kind("kernel")[event])
    frame = trace.kernels.select("id", "name", "grid", "block")
    keys = [known.get(key, _GONE if side == "a" else _NEW) for key in frame.select("name", "grid", "block").iter_rows()]
    by_event = np.full(trace.host.count, -1, np.int64)
    by_event[frame["id"].to_numpy()] = keys
    found[kernels] = by_event[event[kernels]]
    return found


def _known(document: dict[str, Any], side: str) -> dict[tuple[Any, ...], int]:
    known: dict[tuple[Any, ...], int] = {}
    for mark, rows in ((_CHANGED, document["kernels"]["changed"]), (_SAME, document["kernels"]["same"])):
        for row in rows:
            shown = row.get("to", row) if side == "b" else row
            known[shown["name"], shown["config"]["grid"], shown["config"]["block"]] = mark
    return known
