"""What the step of the first screen takes without the profiler, and with each fix.

The step of median length is replayed (`model.replay`). Nothing is predicted where the replay does
not give the recorded time back, or where the trace lacks what a replay needs.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from foretrace.analyze import fixes
from foretrace.analyze.fixes import Fix, Predicted, Prediction
from foretrace.analyze.fixes._step import Step
from foretrace.base.errors import UsageError
from foretrace.base.units import time_text
from foretrace.model import bounds, replay
from foretrace.model.bounds import MOSTLY_IDLE, PARTLY_IDLE
from foretrace.model.idle import spent_in
from foretrace.model.spans import Span
from foretrace.model.trace import Trace
from foretrace.model.wall import unprofiled_ns, unprofiled_step_ns
from foretrace.schema.documents.look import FixEntry, StepTime
from foretrace.schema.documents.whatif import WhatIf
from foretrace.show.overview.measured_step import MeasuredStep, measured_spans

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
    if not len(graph) or len(graph) > fixes.MOST_CALLS or not len(graph.rows):
        return None
    known = unprofiled_step_ns(trace) if steady else unprofiled_ns(trace, span.name)
    found = fixes.predict(trace, Step(trace, graph), _recorded(trace, spans, span, steady), known)
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


def without_profiler(trace: Trace, step: MeasuredStep, found: Predicted | None) -> MeasuredStep:
    """The step with the time that it takes without the profiler, and what bounds it then."""
    if found is None or not step.profiled:
        return step
    wall = max(found.now_ns, step.busy_ns)
    idle, bound = 1 - step.busy_ns / wall, step.bound
    if bound in ("host", "sync") and idle <= MOSTLY_IDLE:
        work = np.concatenate([span.work for span in step.spans])
        bound = "mixed" if idle > PARTLY_IDLE else bounds.of_work(trace, work)
    apart = wall / step.launches if step.apart_ns is not None and step.launches else None
    recorded = found.recorded_ns
    return replace(step, wall_ns=wall, bound=bound, apart_ns=apart, recorded_ns=recorded)


def time_of(found: Predicted) -> StepTime:
    """How long the step takes."""
    times = found.recorded_ns, found.replayed_ns, found.now_ns, found.low_ns, found.high_ns
    return StepTime(*times)


def entries(found: Predicted) -> list[FixEntry]:
    """The fixes of the document; each with its time after the first one."""
    return [_entry(found, at, each) for at, each in enumerate(found.fixes)]


def _entry(found: Predicted, at: int, each: Prediction) -> FixEntry:
    first, proposal = found.fixes[0], each.proposal
    after = found.together([first, each]) if at else None
    return FixEntry(
        each.fix,
        proposal.order,
        proposal.why,
        *(each.ns, each.low_ns, each.high_ns, after),
        *(proposal.first, proposal.risk, proposal.events),
    )


def first_text(step: StepTime, fix: FixEntry) -> str:
    """`write the mask with torch.where: 32 waits per step; 4.3 to about 1.3 ms (1.0 to 1.9)`."""
    span = f"({time_text(fix.low_ns)} to {time_text(fix.high_ns)})"
    return f"{fix.order}: {fix.why}; {time_text(step.ns)} to about {time_text(fix.ns)} {span}"


def next_fix(found: list[FixEntry]) -> FixEntry | None:
    """What to do after the first fix: what shortens the step then."""
    if not found or found[0].first:
        return None
    least = (1 - fixes.WORTH) * found[0].ns
    left = [each for each in found[1:] if each.after_ns is not None and each.after_ns < least]
    return min(left, key=lambda each: (bool(each.first), each.after_ns or 0.0), default=None)


def then_text(fix: FixEntry) -> str:
    """What the second fix brings after the first."""
    before = f"; {fix.first} must go first" if fix.first else ""
    return f"{fix.order}: {fix.why}; after that about {time_text(fix.after_ns)}{before}"


def whatif(trace: Trace, names: Sequence[str]) -> WhatIf:
    """The document of `foretrace whatif`. Raises `UsageError` for a fix that does not apply."""
    per = measured_spans(trace)[0]
    future = predicted(trace)
    if future is None:
        reason = "no step of this trace can be replayed: it needs launches, GPU work and one clock"
        return WhatIf(trace.path, per, None, [], [], None, reason)
    by_name = {each.fix: each for each in future.fixes}
    if wrong := [name for name in names if name not in by_name]:
        known = ", ".join(by_name) or "none"
        raise UsageError(f"no fix {wrong[0]!r} applies to this step; those that do: {known}")
    together = future.together([by_name[name] for name in names]) if names else None
    manual = {fix.name: _manual(fix) for fix in fixes.fixes() if fix.name in by_name}
    step, found = time_of(future), entries(future)
    return WhatIf(trace.path, per, step, found, list(names), together, manual=manual)


def _manual(fix: Fix) -> str:
    return inspect.cleandoc(sys.modules[fix.find.__module__].__doc__ or fix.title)
