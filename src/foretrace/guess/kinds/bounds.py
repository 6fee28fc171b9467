"""What limits the time: the host, compute, memory, copies, communication or waiting.

`bound` is that of most calls (or steps), as `foretrace look` gives it: `host` where the GPU waits
for launches, else what bounds the GPU work, which needs recorded shapes and a card with known
peaks. `gpu` stands for compute, memory and mixed. `gpu idle` is the share of the time from the
start of the window to the end of its last GPU operation in which no GPU operation ran, as the
median over calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from foretrace.guess.kinds import GuessKind, Measurement, Query, comparison
from foretrace.guess.scope import Unknown, Window
from foretrace.model import bounds
from foretrace.model.spans import Span
from foretrace.units import percent_text

_GPU = ("compute", "memory", "mixed")


def measure(query: Query) -> Measurement:
    """Judge `bound is …`, `gpu idle …` or `gpu busy …`."""
    for window in query.windows:
        window.need_gpu()
        window.need_whole()
    return _bound(query) if "bound" in query.args else _share(query)


def _bound(query: Query) -> Measurement:
    windows = query.windows
    votes = Counter(bounds.of_span(window.evidence.trace, _span(window)) for window in windows)
    found = min(votes, key=lambda bound: (-votes[bound], bound))
    if found == "unknown":
        raise Unknown("the bound needs recorded shapes and a card with known peaks")
    several = f" in {votes[found]} of {len(windows)} {query.scope.unit}" if windows[1:] else ""
    wanted = query.args["bound"]
    right = (found in _GPU if wanted == "gpu" else found == wanted) is not _denied(query.args)
    measured = f"{found}{several}, gpu idle {percent_text(_median_idle(query))}"
    return _decided(query, "hit" if right else "miss", measured)


def _denied(args: Mapping[str, Any]) -> bool:
    return "not" in args or "!=" in args


def _share(query: Query) -> Measurement:
    idle = _median_idle(query)
    share = idle if "idle" in query.args else 1 - idle
    return _decided(query, query.judge(share), percent_text(share) + query.median_of)


def _decided(query: Query, verdict: str, measured: str) -> Measurement:
    first = query.windows[0]
    return Measurement(verdict, measured, window=first, rows=first.rows.tolist())


def _median_idle(query: Query) -> float:
    return median(_idle(window) for window in query.windows)


def _idle(window: Window) -> float:
    trace = window.evidence.trace
    if not len(window.rows):
        raise Unknown(f"no GPU operations in {window.label}")
    span = _span(window)
    if window.whole:
        return 1 - trace.gpu.busy(window.rows) / max(trace.gpu.span(window.rows), 1)
    return bounds.idle_share(trace, span)


def _span(window: Window) -> Span:
    """The window as a span of the model; the whole trace is the span of its GPU operations."""
    gpu = window.evidence.trace.gpu
    rows = window.rows[gpu.usable[window.rows]]
    if not len(rows) and (window.whole or len(window.rows)):
        raise Unknown("the GPU operations have no times")
    if window.start_ns is not None and window.end_ns is not None:
        return Span(window.label, 0, -1, window.start_ns, window.end_ns, window.rows)
    start, end = int(gpu.start[rows].min()), int(gpu.end[rows].max())
    return Span(window.label, 0, -1, start, end, window.rows)


KIND = GuessKind(
    "bounds",
    50,
    (
        "bound is|== [not] {bound:bound}",
        "bound != {bound:bound}",
        "[not] {bound:bounded}",
        "gpu idle [{compare:compare}] {amount:share} [of] [gpu] [time]",
        "gpu busy [{compare:compare}] {amount:share} [of] [gpu] [time]",
    ),
    measure,
    expected=lambda args: (
        f"{'not ' if _denied(args) else ''}{args['bound']}" if "bound" in args else comparison(args)
    ),
)
