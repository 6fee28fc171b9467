"""What limits the time: the host, compute, memory, copies, communication or waiting.

`bound` is that of most calls (or steps), as `foretrace look` gives it: `host` where the GPU waits
for launches, else what bounds the GPU work, which needs recorded shapes and a card with known
peaks. `gpu` stands for compute, memory and mixed. `gpu idle` is the share of the time of a step, a
call or the recording in which no GPU operation ran, as the median over calls. A run record's wall
time decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from foretrace.analyze.guess.grammar import Slot, one_of
from foretrace.analyze.guess.kinds import GuessKind, Measurement, Query, comparison
from foretrace.analyze.guess.windows import Unknown, Window
from foretrace.analyze.guess.words import Amount, Compare
from foretrace.base.units import percent_text, time_text
from foretrace.model import bounds
from foretrace.model.idle import Spent, spent_in

# what a step or a region can be bound by; `gpu` is any of the kernels' bounds
BOUNDS = ("host", "compute", "memory", "copy", "comms", "sync", "mixed", "gpu")
_BOUND_WORDS = {f"{bound}{end}": bound for bound in BOUNDS for end in ("", "-bound")}
_BOUND_WORDS["overhead"] = "host"  # its name before version 2
_GPU = ("compute", "memory", "mixed")
_NEAR = 0.01  # a share that people cut, not round


def measure(query: Query) -> Measurement:
    """Judge `bound is …`, `gpu idle …` or `gpu busy …`."""
    query.need_gpu()
    if any(window.lost > len(window.rows) for window in query.windows):
        raise Unknown("most launches have no GPU event, as during the capture of a graph")
    return _bound(query) if "bound" in query.args else _share(query)


def _bound(query: Query) -> Measurement:
    windows = query.windows
    votes = Counter(_of(window) for window in windows)
    found = min(votes, key=lambda bound: (-votes[bound], bound))
    if found == "unknown":
        return _by_idle(query)
    several = f" in {votes[found]} of {len(windows)} {query.scope.unit}" if windows[1:] else ""
    wanted = query.args["bound"]
    right = (found in _GPU if wanted == "gpu" else found == wanted) is not _denied(query.args)
    measured = f"{found}{several}, gpu idle {percent_text(_median_idle(query))}{_scope(query)}"
    return _decided(query, "hit" if right else "miss", measured)


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
        spent = [_spent(window) for window in query.windows]
        length = median(each.wall_ns * each.idle_share for each in spent)
        measured = f"{time_text(length)}{_scope(query)}{query.median_of}"
        return _decided(query, query.compare.of(length, query.args["time"]), measured)
    share = idle if query.args.get("idle") == "idle" else 1 - idle
    measured = f"{percent_text(share)}{_scope(query)}{query.median_of}"
    if "most" in query.args:
        return _decided(query, Compare(">").of(share, Amount("50%", 0.5)), measured)
    verdict, amount = query.judge(share), query.args["amount"]
    if verdict == "miss" and "compare" not in query.args and abs(share - amount.value) < _NEAR:
        verdict = "unknown"  # `idle 97% of the time` may mean 97.9%
    return _decided(query, verdict, measured)


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


KIND = GuessKind(
    "bounds",
    50,
    (
        "bound is|== [not] {bound:bound}",
        "bound != {bound:bound}",
        "[not] {bound:bounded}",
        "gpu idle [{compare:compare}] {amount:share} [of] [gpu] [time]",
        "gpu idle|busy most [of] [gpu] [time]",
        "gpu idle {compare:compare} {time:time}",
        "gpu busy [{compare:compare}] {amount:share} [of] [gpu] [time]",
    ),
    measure,
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
