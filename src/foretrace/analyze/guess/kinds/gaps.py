"""The longest time without GPU work, and what the host did meanwhile.

The causes are those of `foretrace look`: `launch`, the host was inside ops and launch calls;
`host`, it was in no op; `sync`, it waited for the GPU; `copy`, it was inside a copy; `queue`, the
work was launched and waited. Several calls are judged by the one with the median GPU time. The
profiler slows the host, and so makes gaps longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison
from foretrace.analyze.guess.selection import middle
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.base.units import time_text
from foretrace.model.idle import CAUSES, windows_of


class LongestGap(NamedTuple):
    """From `start_ns` to `end_ns`; `then` is the row of the GPU operation that ended it, or -1."""

    start_ns: int
    end_ns: int
    cause: str
    then: int


def longest_gap(window: Window) -> LongestGap | None:
    """The longest part of a gap that has one cause; None where the GPU is never idle."""
    trace = window.evidence.trace
    idle = trace.idle if window.whole else trace.gaps.inside(windows_of(trace, window.span))
    if not len(idle.start):
        return None
    at = int(np.argmax(idle.length))
    return LongestGap(
        int(idle.start[at]), int(idle.end[at]), CAUSES[int(idle.cause[at])], int(idle.then[at])
    )


def measure(query: Query) -> Measurement:
    """Judge `longest gap is sync` or `longest gap < 1 ms`."""
    query.need_gpu()
    window = middle(query.windows)[0]
    if not window.evidence.trace.gpu.usable[window.rows].any():
        raise Unknown(f"no GPU operations with times in {window.label}")
    gap = longest_gap(window)
    if gap is None:
        raise Unknown(f"the GPU is never idle in {window.label}")
    length = gap.end_ns - gap.start_ns
    measured = f"{time_text(length)}, {gap.cause}{query.median_of}"
    if "compare" in query.args:
        return Measurement(query.judge(length), measured, window=window)
    if gap.cause == "unknown":
        raise Unknown("the launch that ended the longest gap is not in the trace")
    verdict = query.hit_if(gap.cause == query.args["launch"])
    rows = [gap.then] if gap.then >= 0 else []
    return Measurement(verdict, measured, window=window, rows=rows)


KIND = GuessKind(
    "gaps",
    28,
    (
        "longest gap is [not] launch|host|sync|copy|queue",
        "longest gap {compare:compare} {amount:time}",
    ),
    measure,
    expected=lambda args: (
        comparison(args) or f"{'not ' if 'not' in args else ''}{args.get('launch', '')}"
    ),
)
