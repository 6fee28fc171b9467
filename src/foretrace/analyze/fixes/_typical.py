"""The typical step of a trace, replayed: what it takes without the profiler, and with each fix.

The step of median length is replayed (`model.replay`). Nothing is predicted where the replay does
not give the recorded time back, or where the trace lacks what a replay needs.
"""

from __future__ import annotations

import numpy as np

from foretrace.analyze.fixes import MOST_CALLS, Predicted, predict
from foretrace.analyze.fixes._step import Step
from foretrace.model import replay
from foretrace.model.idle import spent_in
from foretrace.model.repeats import measured_spans
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.model.wall import unprofiled_ns, unprofiled_step_ns

MOST_WRONG = 0.1  # how far the replay of a step may be from the recorded time
CAPTURED = 0.5  # a step that captures a graph for longer is not the step that counts


def predicted(trace: Trace) -> Predicted | None:
    """The replayed step with its fixes; None where it cannot be replayed."""
    per, spans = measured_spans(trace)
    if not spans or not trace.gpu.aligned or not trace.has("gpu"):
        return None
    span, steady = _typical(spans), per == "per step" and len(spans) > 1
    if not len(span.work) or _captures(trace, span):
        return None
    graph = replay.graph_of(trace, span, steady)
    if not len(graph) or len(graph) > MOST_CALLS or not len(graph.rows):
        return None
    known = unprofiled_step_ns(trace) if steady else unprofiled_ns(trace, span.name)
    found = predict(trace, Step(trace, graph), _recorded(trace, spans, span, steady), known)
    return found if is_right(found) else None


def is_right(found: Predicted) -> bool:
    """Whether the replay of the unchanged step gives the recorded time."""
    return abs(found.replayed_ns / found.recorded_ns - 1) <= MOST_WRONG


def _typical(spans: list[Span]) -> Span:
    return sorted(spans, key=lambda span: span.cpu_ns)[len(spans) // 2]


def _captures(trace: Trace, span: Span) -> bool:
    window = trace.spans.window(span)
    idle = spent_in(trace.gaps.inside([(0, *window)])).idle_by_cause
    return idle.get("capture", 0) > CAPTURED * (window[1] - window[0])


def _recorded(trace: Trace, spans: list[Span], span: Span, steady: bool) -> float:
    """The time of a step: the usual distance of the ends of two, or the window of the only one."""
    ends = np.maximum.accumulate([trace.spans.window(each)[1] for each in spans])
    if steady and len(ends) > 1:
        return float(np.median(np.diff(ends)))
    begin, end = trace.spans.window(span)
    return float(end - begin)
