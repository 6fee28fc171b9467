"""Whether work has a stream of its own: apart from other work, or each launch of it.

`comms on own-stream compute` holds when no stream runs both. Without the second, all other GPU
work counts. `each gemm on own-stream` holds when no two of them share one.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, per_window
from foretrace.analyze.guess.selection import certain
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import Selector
from foretrace.base.units import plural
from foretrace.model.intervals import Ints


def _judge(window: Window, query: Query) -> Measurement:
    lane = window.evidence.trace.gpu.lane
    rows, what = _rows(window, query.what), query.what.text
    mine = set(lane[rows].tolist())
    if "each" in query.args:
        measured = f"{plural(len(rows), what)} on {plural(len(mine), 'stream')}"
        return Measurement(query.hit_if(len(mine) == len(rows)), measured, rows=rows.tolist())
    other = query.args.get("other")
    others = np.setdiff1d(_rows(window, other) if other else window.rows, rows)
    if not len(others):
        raise Unknown(f"there is nothing but `{what}`")
    shared = mine & set(lane[others].tolist())
    beside = other.text if other else "other work"
    measured = f"{what} on {plural(len(mine), 'stream')}, {len(shared)} of them with {beside}"
    return Measurement(query.hit_if(not shared), measured, rows=rows.tolist())


def _rows(window: Window, selector: Selector) -> Ints:
    found = certain(window, selector)
    if not found.on_gpu or not found.sure:
        raise Unknown(f"no {selector.text} on a GPU in {window.label}")
    return np.array(found.sure, np.int64)


KIND = GuessKind(
    "own_streams",
    41,
    (
        "each {what:selector} on own-stream",
        "{what:selector} [not] on own-stream [{other:selector}]",
    ),
    per_window(_judge),
    expected=lambda args: "shared" if "not" in args else "own stream",
)
