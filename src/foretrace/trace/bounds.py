"""What a step or call is bound by, as the table in `docs/look.md` has it.

It takes the time of its window (`Spans.window`), or the wall time without the profiler that a run
record beside the trace has for its region, or for a step where it names none. What that leaves
beside the GPU time is all that a faster host can save. Without a record a bound of `host` is that
of the recording. A region that is called several times has the bound that most of its calls have.
A kernel's bound comes from its roofs; memcpys and memsets are `copy`.

What a recording repeats: its steps, the batches of a server, or the calls of its main region.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from msgspec.structs import replace

from foretrace.base.arrays import distinct
from foretrace.trace.analysis import Analysis
from foretrace.trace.idle import Spent, spent_in, windows_of
from foretrace.trace.intervals import Ints
from foretrace.trace.recording import Recording
from foretrace.trace.spans import Span
from foretrace.work.costs.limits import AT_ROOF


def unprofiled_ns(trace: Recording, region: str) -> float | None:
    """Wall time of one call of this region without the profiler; None without a run record."""
    run = trace.run
    return run.timing.wall_ns_per_call if run.rung.region == region else None


def unprofiled_step_ns(trace: Recording) -> float | None:
    """Wall time of one step without the profiler; None where the record times a region's calls."""
    run = trace.run
    return run.timing.wall_ns_per_call if run.rung.region is None else None


def idle_limit_ns(trace: Recording) -> float | None:
    """The most that the GPU idles in a step without the profiler; None without a run record.

    Known where the record times steps, or every step calls its region equally often.
    """
    region, steps = trace.run.rung.region or "", trace.spans.steps
    if (step := unprofiled_step_ns(trace)) is not None:
        work = trace.spans.median_busy(steps)
        return None if work is None else max(step - work, 0.0)
    calls = trace.spans.region_groups().get(region, [])
    wall, busy = unprofiled_ns(trace, region), trace.spans.median_busy(calls)
    if wall is None or busy is None or len(calls) % max(len(steps), 1):
        return None
    return max(wall - busy, 0.0) * len(calls) / max(len(steps), 1)


# More idle than busy: whatever the kernels do, making them faster cannot even halve the time. On
# the recorded H200 traces matmul + add is idle for 95 to 99% of a step at size 64 and for 2% at
# size 4096, the Llama training step for 73 to 75%.
MOSTLY_IDLE = 0.5
# Above this the host takes a visible part of a step, and no kind of work bounds it alone.
PARTLY_IDLE = 1 / 3
# One kind of bound explains a stretch when kernels of that bound take this share of its GPU time.
# In the recorded eager MLP the three matmuls take 70% of it; where two kinds share it evenly
# neither explains it.
DOMINANT = 0.6


def spent(trace: Analysis, span: Span) -> Spent | None:
    """The time of one step or call; None where it launched nothing that has a time."""
    key = (span.event, span.start_ns, span.end_ns, len(span.work))
    if key not in trace.spent:
        trace.spent[key] = _spent(trace, span)
    return trace.spent[key]


def _spent(trace: Analysis, span: Span) -> Spent | None:
    windows = windows_of(trace, span)
    if not windows:
        return None
    time = spent_in(trace.gaps.inside(windows))
    known = unprofiled_ns(trace, span.name) or _record_of_step(trace, span)
    if known is None:
        return time
    return replace(time, wall_ns=max(known * len(windows), time.busy_ns), profiled=False)


def _record_of_step(trace: Analysis, span: Span) -> float | None:
    """The wall time of a step: recorded, or that of the only call in it that launched anything."""
    is_step = span.event >= 0 and trace.host.is_step[span.event]
    if is_step and (known := unprofiled_step_ns(trace)) is not None:
        return known
    every = trace.spans.region_groups().get(trace.run.rung.region or "", [])
    began = attrgetter("start_ns")
    first = bisect_left(every, span.start_ns, key=began)
    begun = every[first : bisect_right(every, span.end_ns, key=began)]
    calls = [call for call in begun if call.end_ns <= span.end_ns]
    whole = len(calls) == 1 and len(calls[0].work) == len(span.work)
    return unprofiled_ns(trace, calls[0].name) if whole else None


def of_span(trace: Analysis, span: Span) -> str:
    """The bound of one step or region call."""
    time = spent(trace, span)
    return "unknown" if time is None else of_time(trace, time, span.work)


def of_time(trace: Analysis, time: Spent, work: Ints) -> str:
    """The bound of a stretch that spent this time, on this work."""
    if time.idle_share > MOSTLY_IDLE:
        return time.idle_bound
    return "mixed" if time.idle_share > PARTLY_IDLE else of_work(trace, work)


def of_spans(trace: Analysis, spans: list[Span]) -> str:
    """The bound that most of the calls have; of two that as many have, that of the call with the
    median idle time, which the rules speak of.
    """
    found = [(of_span(trace, span), spent(trace, span)) for span in spans]
    votes = Counter(bound for bound, _ in found)
    most = max(votes.values(), default=0)
    tied = [(time.idle_ns if time else 0, bound) for bound, time in found if votes[bound] == most]
    return sorted(tied)[(len(tied) - 1) // 2][1] if tied else "unknown"


def of_work(trace: Analysis, rows: Ints) -> str:
    """The bound of some GPU work by the time that each kind of bound takes, idle time aside."""
    time = time_by_bound(trace, rows)
    total = sum(time.values())
    if not total:
        return "unknown"
    most = max(time, key=lambda bound: (time[bound], bound))
    if time[most] >= DOMINANT * total:
        return "mixed" if most == "latency" else most
    return "unknown" if time.get("unknown", 0) > total * (1 - DOMINANT) else "mixed"


def time_at_roof(trace: Analysis, rows: Ints) -> dict[str, int]:
    """The same for kernels at their roof alone."""
    order, reached = trace.order, np.zeros(len(trace.gpu))
    percent = trace.kernel_cases["roof_percent"].fill_null(0.0).to_numpy()
    reached[order.row] = percent[order.case]
    return time_by_bound(trace, rows[reached[rows] >= 100 * AT_ROOF])


def time_by_bound(trace: Analysis, rows: Ints) -> dict[str, int]:
    """GPU time of each bound; what came from L2 counts as memory."""
    kinds, length = trace.work_bounds[rows], trace.gpu.length[rows]
    time: dict[str, int] = {}
    for bound in distinct(kinds).tolist():
        name = "memory" if bound == "l2" else str(bound)
        time[name] = time.get(name, 0) + int(length[kinds == bound].sum())
    return time


# A region stands for the recording when it holds this share of all GPU time.
MAIN = 0.5
NAME = 32


def measured_spans(trace: Analysis, region: str = "") -> tuple[str, list[Span]]:
    """The word for it, and the steps or calls that are measured; none for the whole recording."""
    per, spans = _repeated(trace, region)
    return per, trace.whole(spans)


def _repeated(trace: Analysis, region: str) -> tuple[str, list[Span]]:
    groups = trace.spans.region_groups()
    if region:
        return "per call", _working(trace, groups[region])
    steps, busy = _working(trace, trace.spans.steps), trace.gpu.busy(trace.gpu.usable)
    if steps and _busy(trace, steps) >= MAIN * busy:
        return "per step", steps
    served = _served(trace)
    if served[1] and _busy(trace, served[1]) >= MAIN * busy:
        return f"per {served[0]} batch", served[1]
    calls = [(name, _working(trace, spans)) for name, spans in groups.items()]
    main = max(calls, key=lambda each: _busy(trace, each[1]), default=("", []))
    if main[1] and _busy(trace, main[1]) >= MAIN * busy:
        return f"per call of {shortened(main[0])}", main[1]
    return "in the recording", []


def _served(trace: Analysis) -> tuple[str, list[Span]]:
    """The kind of batch that keeps the GPU busiest, where a serving engine annotated them."""
    kinds: dict[str, list[Span]] = {}
    for span, batch in zip(trace.served.spans, trace.served.batches, strict=True):
        kinds.setdefault(batch.kind, []).append(span)
    calls = [(kind, _working(trace, spans)) for kind, spans in kinds.items()]
    return max(calls, key=lambda each: _busy(trace, each[1]), default=("", []))


def shortened(name: str) -> str:
    """A name that leaves room for the rest of the line; serving engines write long ones."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _working(trace: Analysis, spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if bool(trace.gpu.usable[span.work].any())]


def _busy(trace: Analysis, spans: Sequence[Span]) -> int:
    work = [span.work for span in spans]
    return trace.gpu.busy(distinct(np.concatenate(work))) if work else 0
