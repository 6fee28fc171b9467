"""Whether the GPU waits for something on the host: the DataLoader, an op, a call, a region.

What counts is the time in which no GPU operation runs and the host is inside it, as a share of the
recorded time. From 5% on the GPU waits, below 1% it does not; between the two it is unknown.
Several calls are judged by the one with the median GPU time.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query
from foretrace.analyze.guess.selection import middle, select
from foretrace.analyze.guess.windows import Scope, Unknown, Window, windows_of
from foretrace.base.units import percent_text
from foretrace.model.idle import windows_of as idle_windows
from foretrace.model.intervals import IntervalUnion

_WAITS, _RUNS = 0.05, 0.01  # below, a gap between two launches of one step may be all of it


def measure(query: Query) -> Measurement:
    """Judge `gpu waits for the data loader`."""
    query.need_gpu()
    windows = query.windows
    if windows[0].whole and windows[0].evidence.trace.spans.steps:
        windows = windows_of(Scope("steps"), windows[0].evidence)
    window = middle(windows)[0]
    idle, waited = _shares(window, query)
    share = f"{percent_text(waited)} of the time"
    measured = f"gpu idle {percent_text(idle)}; idle and the host in {query.what.text}: {share}"
    if _RUNS <= waited < _WAITS:
        return Measurement("unknown", measured, "too little to tell from launches", window)
    events = select(window, query.what).sure
    return Measurement(query.hit_if(waited >= _WAITS), measured, window=window, events=events)


def _shares(window: Window, query: Query) -> tuple[float, float]:
    """Of the time of a window: idle, and idle while the host is inside what is asked about."""
    if query.what.on_gpu:
        raise Unknown(f"`{query.what.text}` runs on the GPU: say what the host does")
    trace, host = window.evidence.trace, window.evidence.trace.host
    idle = trace.idle if window.whole else trace.gaps.inside(idle_windows(trace, window.span))
    length = trace.gpu.span(window.rows) if window.whole else window.length_ns
    whole = int(idle.length.sum()) / max(length, 1)
    events = np.array(select(window, query.what).sure, np.int64)
    if not len(events) and whole >= _RUNS:
        raise Unknown(f"no {query.what.text} in {window.label}, and the GPU is idle")
    inside = IntervalUnion(host.start[events], host.end[events]).between(idle.start, idle.end)
    return whole, int(inside.sum()) / max(length, 1)


KIND = GuessKind(
    "waits",
    43,
    ("gpu [not] waits for {what:selector}",),
    measure,
    expected=lambda args: "does not wait" if "not" in args else "waits",
)
