"""Whether kernels run at the same time: of two kinds, or among all of one kind.

Kernels overlap when one runs before another has ended, on any stream of the same GPU. What is
measured is the time in which both run.
"""

from __future__ import annotations

import numpy as np

from foretrace.guess.kinds import GuessKind, Measurement, Query, per_window
from foretrace.guess.scope import Unknown, Window
from foretrace.guess.selection import certain
from foretrace.guess.selectors import Selector
from foretrace.model.intervals import Ints
from foretrace.units import time_text


def _judge(window: Window, query: Query) -> Measurement:
    first, second = query.args["first"], query.args.get("second")
    rows, gpu = _rows(window, first), window.evidence.trace.gpu
    if second is None:
        together, what = int(gpu.length[rows].sum()) - gpu.busy(rows), first.text
    else:
        others = np.setdiff1d(_rows(window, second), rows)
        if not len(others):
            raise Unknown(f"`{first.text}` and `{second.text}` are the same kernels here")
        both = np.concatenate((rows, others))
        together = gpu.busy(rows) + gpu.busy(others) - gpu.busy(both)
        rows, what = both, f"{first.text} and {second.text}"
    right = (together > 0) is ("not" not in query.args)
    measured = f"{what} overlap for {time_text(together)}" if together else f"no overlap of {what}"
    return Measurement("hit" if right else "miss", measured, rows=rows.tolist())


def _rows(window: Window, selector: Selector) -> Ints:
    if not selector.on_gpu:
        raise Unknown(f"`{selector.text}` is not a GPU operation; say for example `gemm`")
    rows = np.array(certain(window, selector).sure, np.int64)
    if not len(rows):
        raise Unknown(f"no {selector.text} in {window.label}")
    if not window.evidence.trace.gpu.usable[rows].all():
        raise Unknown("some GPU operations have no time")
    return rows


KIND = GuessKind(
    "overlap",
    42,
    (
        "{first:selector} and {second:selector} [not] overlap|overlaps",
        "{first:selector} [not] overlap|overlaps {second:selector}",
        "{first:selector} [not] overlap|overlaps",
    ),
    per_window(_judge),
    expected=lambda args: "no overlap" if "not" in args else "overlap",
)
