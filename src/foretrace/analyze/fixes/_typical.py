"""The typical step of a trace, replayed: what it takes without the profiler, and with each fix.

The step of median length is replayed (`model.replay`). Nothing is predicted where the replay does
not give the recorded time back, or where the trace lacks what a replay needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from foretrace.analyze.fixes import MOST_CALLS, Predicted, predict
from foretrace.analyze.fixes._step import Step
from foretrace.model import bounds, replay
from foretrace.model.bounds import measured_spans
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.schema.finding import Finding

MOST_WRONG = 0.1  # how far the replay of a step may be from the recorded time
SHORTER = 0.03  # than without the profiler: a step cannot be, but for what the replay rounds
CAPTURED = 0.5  # a step that captures a graph for longer is not the step that counts


def predicted(
    trace: Trace,
    findings: Sequence[Finding] | None = None,
    advises: Callable[[str], bool] = bool,
) -> Predicted | None:
    """The replayed step with its fixes; None where it cannot be replayed. `findings` is what the
    rules say of the trace, where that is known; `advises` as in `predict`.
    """
    if not _complete(trace):
        return None
    span, recorded, steady, repeats = _chosen(trace)
    if _captures(trace, span):
        return None
    graph = replay.graph_of(trace, span, steady)
    if not 0 < len(graph.calls) <= MOST_CALLS or not len(graph.rows):
        return None
    spent = bounds.spent(trace, span)
    known = spent.wall_ns if spent is not None and not spent.profiled else None
    step = Step(trace, graph, repeats, findings)
    found = predict(step, recorded, known, advises)
    return found if is_right(found) else None


def why_not(trace: Trace) -> str:
    """Why the step of a trace is not replayed."""
    if not _complete(trace):
        return "it needs launches, GPU work and one clock"
    if _captures(trace, _chosen(trace)[0]):
        return "the host captures a CUDA graph, which runs nothing"
    return "the replay does not give the recorded time"


def _complete(trace: Trace) -> bool:
    gpu = trace.gpu
    return trace.has("gpu") and gpu.aligned and bool((gpu.launch >= 0).any())


def _chosen(trace: Trace) -> tuple[Span, float, bool, int]:
    """The step or call, its recorded time, whether one ran before it, and how many there are."""
    per, spans = measured_spans(trace)
    steady = per == "per step" and len(spans) > 1
    if steady:  # the step of median time, from the end of the one before
        times = np.diff(np.maximum.accumulate([trace.spans.window(each)[1] for each in spans]))
        middle = int(np.argsort(times, kind="stable")[(len(times) - 1) // 2])
        span, recorded = spans[middle + 1], float(times[middle])
    else:  # the call of median time, or the whole recording
        calls = sorted(spans, key=lambda span: span.cpu_ns) or [_whole(trace)]
        span = calls[len(calls) // 2]
        begin, end = trace.spans.window(span)
        recorded = float(end - begin)
    # a range may outlast all that was recorded
    last = trace.spans.window(span)[1] - trace.gpu.lag
    return replace(span, end_ns=min(span.end_ns, last)), recorded, steady, len(spans)


def is_right(found: Predicted) -> bool:
    """Whether the replay gives the recorded time, and the profiler made it no shorter."""
    off, recorded = abs(found.replayed_ns - found.recorded_ns), found.recorded_ns
    return 0 < found.now_ns <= (1 + SHORTER) * recorded and off <= MOST_WRONG * recorded


def _whole(trace: Trace) -> Span:
    """From the first launch to the last GPU operation, as one call: what the verdict is about."""
    host, gpu = trace.host, trace.gpu
    work = gpu.launch_order[gpu.launch[gpu.launch_order] >= 0]
    begin = int(host.start[gpu.launch[work]].min()) if len(work) else 0
    end = int(gpu.end[work][gpu.usable[work]].max(initial=begin + gpu.lag + 1)) - gpu.lag
    return Span("recording", 0, -1, begin, end, work)


def _captures(trace: Trace, span: Span) -> bool:
    """Whether the host captured a CUDA graph for most of the step: that runs nothing."""
    begin, end = np.array([span.start_ns]), np.array([max(span.end_ns, span.start_ns + 1)])
    return float(trace.host.captures.between(begin, end)[0]) > CAPTURED * float(end[0] - begin[0])
