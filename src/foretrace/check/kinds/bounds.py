"""What limits the time, and what the GPU waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from foretrace.base.units import percent_text, time_text
from foretrace.check.grammar import Slot, one_of
from foretrace.check.kinds import Measurement, Query, comparison, prediction
from foretrace.check.selection import middle, select, without_profiler
from foretrace.check.windows import Scope, Unknown, Window, windows_of
from foretrace.check.words import Amount, Compare
from foretrace.trace import bounds
from foretrace.trace.idle import CAUSES, Spent, spent_in
from foretrace.trace.idle import windows_of as idle_windows
from foretrace.trace.intervals import IntervalUnion
from foretrace.trace.utilization import utilization

# what a step or a region can be bound by; `gpu` is any of the kernels' bounds
BOUNDS = ("host", "compute", "memory", "copy", "comms", "sync", "mixed", "gpu")
_BOUND_WORDS = {f"{bound}{end}": bound for bound in BOUNDS for end in ("", "-bound")}
_BOUND_WORDS["overhead"] = "host"  # its name before version 2
_GPU = ("compute", "memory", "mixed")
_NEAR = 0.01  # a share that people cut, not round
_APART = 0.05  # shares that differ by less are one for people


def _bound(query: Query) -> Measurement:
    windows = query.windows
    votes = Counter(_of(window) for window in windows)
    found = min(votes, key=lambda bound: (-votes[bound], bound))
    if found == "unknown":
        return _by_idle(query)
    several = f" in {votes[found]} of {len(windows)} {query.scope.unit}" if windows[1:] else ""
    right = _fits(query, found)
    measured = f"{found}{several}, gpu idle {percent_text(_median_idle(query))}{_scope(query)}"
    idle = _estimated_idle(query) if found in ("host", "sync") else 1.0
    if idle <= bounds.MOSTLY_IDLE:  # less than the host's bound takes
        first = query.windows[0]
        work = bounds.of_work(first.evidence.trace, first.rows)
        if _fits(query, "mixed" if idle > bounds.PARTLY_IDLE else work) != right:
            raise Unknown(f"{measured}; without the profiler idle for about {percent_text(idle)}")
    return _decided(query, "hit" if right else "miss", measured)


def _fits(query: Query, found: str) -> bool:
    wanted = query.args["bound"]
    return (found in _GPU if wanted == "gpu" else found == wanted) is not _denied(query.args)


def _estimated_idle(query: Query) -> float:
    """The idle share of the step without the profiler, as `foretrace look` estimates it.

    1 where a run record has the time, or nothing can be estimated.
    """
    first = query.windows[0]
    replayed = first.evidence.replayed if first.whole and _scope(query) else None
    if replayed is None:
        return 1.0
    steps = windows_of(Scope("pass"), first.evidence)
    busy = median(_spent(step).busy_ns for step in steps)
    return 1 - busy / max(replayed.now_ns, busy, 1)


def _of(window: Window) -> str:
    if not len(window.rows) and not window.whole:
        return "unknown"
    return bounds.of_time(window.evidence.trace, _spent(window), window.rows)


def _by_idle(query: Query) -> Measurement:
    """Without the cost of kernels: a busy GPU is not held back by the host."""
    wanted, idle = query.args["bound"], _median_idle(query)
    busy = {"host": bounds.MOSTLY_IDLE, "sync": bounds.MOSTLY_IDLE, "gpu": bounds.PARTLY_IDLE}
    if wanted not in busy or idle > busy[wanted]:
        raise Unknown("the bound needs recorded shapes and a card with known peaks")
    right = (wanted == "gpu") is not _denied(query.args)
    measured = f"not host, gpu idle {percent_text(idle)}{_scope(query)}"
    return _decided(query, "hit" if right else "miss", measured)


def _denied(args: Mapping[str, Any]) -> bool:
    return "not" in args or "!=" in args


def _share(query: Query) -> Measurement:
    idle = _median_idle(query)
    if isinstance(query.args.get("time"), Amount):
        return _length(query)
    share = idle if query.args.get("idle") == "idle" else 1 - idle
    measured = f"{percent_text(share)}{_scope(query)}{query.median_of}"
    if "most" in query.args:
        return _decided(query, Compare(">").of(share, Amount("50%", 0.5)), measured)
    verdict, amount = query.judge(share), query.args["amount"]
    host = _of_host(query) if query.scope.kind == "region" else share
    if abs(host - share) > _APART and query.judge(host) != verdict:
        raise Unknown(f"{measured} while its work ran, but not of the time that its call took")
    if verdict == "miss" and "compare" not in query.args and abs(share - amount.value) < _NEAR:
        verdict = "unknown"  # `idle 97% of the time` may mean 97.9%
    return _decided(query, verdict, measured)


def _of_host(query: Query) -> float:
    """The same share of the time of the calls, where these took longer than their work."""
    calls = [(_spent(each), each.length_ns) for each in query.windows]
    busy = median((1 - one.idle_share) * min(one.wall_ns / max(ns, 1), 1) for one, ns in calls)
    return 1 - busy if query.args.get("idle") == "idle" else busy


def _length(query: Query) -> Measurement:
    """How long the GPU is idle or busy; of a recording without a record, in a step or in all."""
    length = _idle_or_busy(query, query.windows)
    verdict = query.compare.of(length, query.args["time"])
    if query.windows[0].whole:
        steps = windows_of(Scope("pass"), query.windows[0].evidence)
        each = _idle_or_busy(query, steps)
        if query.compare.of(each, query.args["time"]) != verdict:
            shown = f"{time_text(each)} per step, {time_text(length)} in total"
            raise Unknown(f"{shown}: say which is meant")
    measured = f"{time_text(length)}{_scope(query)}{query.median_of}"
    return _decided(query, verdict, measured)


def _idle_or_busy(query: Query, windows: list[Window]) -> float:
    spent = [_spent(window) for window in windows]
    if query.args["idle"] == "busy":
        return median(each.busy_ns for each in spent)
    return median(each.wall_ns * each.idle_share for each in spent)


def _decided(query: Query, verdict: str, measured: str) -> Measurement:
    first = query.windows[0]
    return Measurement(verdict, measured, window=first, rows=first.rows.tolist())


def _median_idle(query: Query) -> float:
    return median(_spent(window).idle_share for window in query.windows)


def _scope(query: Query) -> str:
    """What the share is of: `foretrace look` predicts the time without the profiler."""
    profiled = any(_spent(window).profiled for window in query.windows)
    return " as recorded" if profiled else ""


def _spent(window: Window) -> Spent:
    """Where the recorded time of a window goes."""
    trace = window.evidence.trace
    if not len(window.rows):
        raise Unknown(f"no GPU operations in {window.label}")
    if window.start_ns is None or window.end_ns is None:
        usable = bool(trace.gpu.usable.any())
        time = spent_in(trace.idle) if usable else None
    else:
        time = bounds.spent(trace, window.span)
    if time is None:
        raise Unknown("the GPU operations have no times")
    return time


@prediction(
    "bounds",
    50,
    "bound is|== [not] {bound:bound}",
    "bound != {bound:bound}",
    "[not] {bound:bounded}",
    "gpu idle [{compare:compare}] {amount:share} [of] [gpu] [time]",
    "gpu idle|busy most [of] [gpu] [time]",
    "gpu idle|busy [{compare:compare}] {time:time}",
    "gpu busy [{compare:compare}] {amount:share} [of] [gpu] [time]",
    expected=lambda args: (
        f"{'not ' if _denied(args) else ''}{args['bound']}"
        if "bound" in args
        else comparison(args) or "> 50%"
    ),
    slots={
        "bound": Slot(", ".join(BOUNDS), one_of(_BOUND_WORDS)),
        "bounded": Slot(
            ", ".join(f"{bound}-bound" for bound in BOUNDS),
            one_of({f"{bound}-bound": bound for bound in BOUNDS}),
        ),
    },
)
def _limited(query: Query) -> Measurement:
    """What limits the time: the host, compute, memory, copies, communication or waiting.

    `bound` is that of most calls (or steps), as `foretrace look` gives it: `host` where the GPU
    waits for launches, else what bounds the GPU work, which needs recorded shapes and a card with
    known peaks. `gpu` stands for compute, memory and mixed. `gpu idle` is the share of the time of
    a step, a call or the recording in which no GPU operation ran, as the median over calls. A run
    record's wall time decides.
    """
    query.need_gpu()
    if any(window.lost > len(window.rows) for window in query.windows):
        raise Unknown("most launches have no GPU event, as during the capture of a graph")
    query = _of_record(query)
    return _bound(query) if "bound" in query.args else _share(query)


def _of_record(query: Query) -> Query:
    """Of the recording: its steps or calls, where the run record has their time."""
    if not query.windows[0].whole:
        return query
    passes = windows_of(Scope("pass"), query.windows[0].evidence)
    known = all(len(each.rows) and without_profiler(each) is not None for each in passes)
    return replace(query, scope=Scope("pass"), windows=passes) if known else query


class LongestGap(NamedTuple):
    """From `start_ns` to `end_ns`; `then` is the row of the GPU operation that ended it, or -1."""

    start_ns: int
    end_ns: int
    cause: str
    then: int


def longest_gap(window: Window) -> LongestGap | None:
    """The longest part of a gap that has one cause; None where the GPU is never idle."""
    trace = window.evidence.trace
    idle = trace.idle if window.whole else trace.gaps.inside(idle_windows(trace, window.span))
    if not len(idle.start):
        return None
    at = int(np.argmax(idle.length))
    return LongestGap(
        int(idle.start[at]), int(idle.end[at]), CAUSES[int(idle.cause[at])], int(idle.then[at])
    )


@prediction(
    "gaps",
    28,
    "longest gap is [not] launch|host|sync|copy|queue",
    "longest gap {compare:compare} {amount:time}",
    expected=lambda args: (
        comparison(args) or f"{'not ' if 'not' in args else ''}{args.get('launch', '')}"
    ),
)
def _gap(query: Query) -> Measurement:
    """The longest time without GPU work, and what the host did meanwhile.

    The causes are those of `foretrace look`: `launch`, the host was inside ops and launch calls;
    `host`, it was in no op; `sync`, it waited for the GPU; `copy`, it was inside a copy; `queue`,
    the work was launched and waited. Several calls are judged by the one with the median GPU time.
    The profiler slows the host, and so makes gaps longer.
    """
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


_WAITS, _RUNS = 0.05, 0.01  # below, a gap between two launches of one step may be all of it


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


@prediction(
    "waits",
    43,
    "gpu [not] waits for {what:selector}",
    expected=lambda args: "does not wait" if "not" in args else "waits",
)
def gpu_waits(query: Query) -> Measurement:
    """Whether the GPU waits for something on the host: the DataLoader, an op, a call, a region.

    What counts is the time in which no GPU operation runs and the host is inside it, as a share of
    the recorded time. From 5% on the GPU waits, below 1% it does not; between the two it is
    unknown. Several calls are judged by the one with the median GPU time.
    """
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


@prediction("utilization", 56, "[wall|gpu] mfu|mbu {compare:compare} {amount:share}")
def _utilization(query: Query) -> Measurement:
    """How much of what the GPU can do is used: MFU (FLOPs of matmuls and attention) and MBU
    (bytes).

    Both are of the wall time, or of the GPU time: `gpu mfu`. The wall time is that of the run
    record beside the trace where there is one. Else it is that of a profiled run, which takes
    longer than the program alone: what the program uses then lies between the two figures, and `mfu
    > 20%` is unknown where 20% does as well.
    """
    query.need_gpu()
    figure, clock = query.args["mfu"], query.args.get("wall", "wall")
    trace = query.windows[0].evidence.trace
    found = utilization(trace, [window.span for window in query.windows if not window.whole])
    value, most = (getattr(found, f"{figure}_{name}") for name in (clock, "gpu"))
    if value is None or most is None:
        raise Unknown(found.note or "FLOPs and bytes need recorded shapes: record_shapes=True")
    profiled = clock == "wall" and found.profiled
    of = "GPU time" if clock == "gpu" else "wall time"
    shown = f"{percent_text(value)} of {of}{' (profiled)' if profiled else ''}"
    if profiled and query.compare.symbol[0] in "<>":
        verdict = query.compare.verdict(value, most, query.args["amount"])
    else:
        verdict = query.judge(value)
    why = f"without the profiler it is {percent_text(value)} to {percent_text(most)}"
    return Measurement(verdict, shown, why if verdict == "unknown" else "", query.windows[0])
